"""How the tokens of the requests of a worker are chosen, by request row: parameters on the device, the rest here."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specsim.gpu.worker.rules import RuleRows
from specsim.host.acceptance import Acceptance
from specsim.host.choice import UNCONSTRAINED, TokenChoice, any_rules
from specsim.host.sampling import GREEDY
from specsim.simulation.logprobs import hands_states, most_top

DTYPES = {
    "temperature": torch.float32,
    "top_k": torch.int32,
    "top_p": torch.float32,
    "min_p": torch.float32,
    "threshold_single": torch.float32,
    "threshold_acc": torch.float32,
    "seed": torch.int64,
}
"""Element type of every parameter, in the order in which the verification takes them; the seed comes last."""


@dataclass(frozen=True)
class Asked:
    """What the requests of a batch ask for; it is found once an iteration, on the host.

    ``is_sampled`` says that a request is sampled, asks for log-probabilities, or has penalties or biases,
    ``has_rules`` that logits follow an output, ``is_constrained`` that the host changes them, and ``wants_report`` that
    any request wants a report on its tokens.
    """

    choices: Sequence[TokenChoice]
    is_sampled: bool
    hands_states: bool
    has_rules: bool
    is_constrained: bool
    wants_report: bool


class ChoiceRows:
    """Choices by request row; a row without any, and the padding row, are greedy and unconstrained.

    Which rows are sampled, and which have rules, is known on the host too, so that a batch without any costs nothing.
    With ``is_top_k_exact`` drafts are accepted from exactly as many tokens as the top-k of their request says, where no
    request of the batch keeps all of them. ``acceptance`` is the rule by which drafts of sampled requests are accepted.
    """

    def __init__(
        self,
        num_rows: int,
        device: torch.device,
        is_top_k_exact: bool = False,
        acceptance: Acceptance = Acceptance.TOKEN,
    ) -> None:
        self.is_top_k_exact = is_top_k_exact
        self.acceptance = acceptance
        self._by_name = {
            name: torch.full((num_rows,), getattr(GREEDY, name), dtype=dtype, device=device)
            for name, dtype in DTYPES.items()
        }
        self._by_row: dict[int, TokenChoice] = {}
        self.rules = RuleRows(num_rows, device)

    def assign(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Write how the tokens of joining requests are chosen."""
        where = torch.tensor(rows, dtype=torch.int64)
        for name, values in self._by_name.items():
            numbers = [getattr(choice.sampling or GREEDY, name) for choice in choices]
            given = torch.tensor(numbers, dtype=values.dtype)
            values[where.to(values.device)] = given.to(values.device)
        self._by_row.update(zip(rows, choices, strict=True))

    def asked(self, rows: Sequence[int]) -> Asked:
        """Return what the requests of a batch ask for, without asking the device; rules count where rows have any."""
        choices = [self._by_row.get(row, UNCONSTRAINED) for row in rows]
        sampled = [choice.sampling for choice in choices]
        return Asked(
            choices=choices,
            is_sampled=any(one is not None and not one.is_greedy for one in sampled)
            or any(choice.rules is not None and choice.rules.has_strengths for choice in choices)
            or most_top(choices) is not None,
            hands_states=hands_states(choices),
            has_rules=self.rules.is_allocated and any_rules(choices),
            is_constrained=any(choice.is_constrained for choice in choices),
            wants_report=any(choice.wants_report for choice in choices),
        )

    def gather(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return every parameter of the requests of a batch, in the order of ``DTYPES``."""
        return tuple(self._by_name[name].index_select(0, rows) for name in DTYPES)
