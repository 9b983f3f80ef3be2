"""How the tokens of the requests of a worker are chosen, by request row: parameters on the device, the rest here."""

from collections.abc import Sequence

import torch
from torch import Tensor

from specsim.host.choice import UNCONSTRAINED, TokenChoice
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


class ChoiceRows:
    """Choices by request row; a row without any, and the padding row, are greedy and unconstrained.

    Which rows are sampled is known on the host too, so that a greedy batch costs nothing.
    """

    def __init__(self, num_rows: int, device: torch.device) -> None:
        self._by_name = {
            name: torch.full((num_rows,), getattr(GREEDY, name), dtype=dtype, device=device)
            for name, dtype in DTYPES.items()
        }
        self._by_row: dict[int, TokenChoice] = {}

    def assign(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Write how the tokens of joining requests are chosen."""
        where = torch.tensor(rows, dtype=torch.int64)
        for name, values in self._by_name.items():
            numbers = [getattr(choice.sampling or GREEDY, name) for choice in choices]
            given = torch.tensor(numbers, dtype=values.dtype)
            values[where.to(values.device)] = given.to(values.device)
        self._by_row.update(zip(rows, choices, strict=True))

    def has_sampled(self, rows: Sequence[int]) -> bool:
        """Return whether any of these rows is sampled, without asking the device."""
        sampled = [choice.sampling for choice in self.of(rows)]
        return any(one is not None and not one.is_greedy for one in sampled)

    def tells(self, rows: Sequence[int]) -> bool:
        """Return whether any of these rows is told anything of its tokens."""
        return any(choice.is_told for choice in self.of(rows))

    def hands_states(self, rows: Sequence[int]) -> bool:
        """Return whether any of these rows is handed hidden states."""
        return hands_states(self.of(rows))

    def needs_distribution(self, rows: Sequence[int]) -> bool:
        """Return whether any of these rows is sampled, or asks for log-probabilities."""
        return self.has_sampled(rows) or most_top(self.of(rows)) is not None

    def is_constrained(self, rows: Sequence[int]) -> bool:
        """Return whether the logits of any of these rows are changed on the host."""
        return any(choice.is_constrained for choice in self.of(rows))

    def of(self, rows: Sequence[int]) -> list[TokenChoice]:
        """Return the choices of the requests of a batch."""
        return [self._by_row.get(row, UNCONSTRAINED) for row in rows]

    def gather(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return every parameter of the requests of a batch, in the order of ``DTYPES``."""
        return tuple(self._by_name[name].index_select(0, rows) for name in DTYPES)
