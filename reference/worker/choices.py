"""How the tokens of the requests of a worker are chosen, by request row."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.acceptance import Acceptance
from specsim.host.choice import UNCONSTRAINED, TokenChoice
from specsim.host.sampling import GREEDY
from specsim.reference.worker.outputs import OutputRows
from specsim.simulation.logprobs import hands_states, most_top

DTYPES = {
    "temperature": np.float32,
    "top_k": np.int32,
    "top_p": np.float32,
    "min_p": np.float32,
    "threshold_single": np.float32,
    "threshold_acc": np.float32,
    "seed": np.int64,
}
"""Element type of every parameter, by its name."""


class ChoiceRows:
    """Sampling parameters, processors, matchers and rules by request row; a row without any is greedy, and free.

    ``outputs`` is what rows know of the output that rules follow.

    With ``is_top_k_exact`` drafts are accepted from exactly as many tokens as the top-k of their request says, where no
    request of the batch keeps all of them. ``acceptance`` is the rule by which drafts of sampled requests are accepted.
    """

    def __init__(self, num_rows: int, is_top_k_exact: bool = False, acceptance: Acceptance = Acceptance.TOKEN) -> None:
        self.is_top_k_exact = is_top_k_exact
        self.acceptance = acceptance
        self._by_row: dict[int, TokenChoice] = {}
        self.outputs = OutputRows(num_rows)
        self._by_name = {name: np.full(num_rows, getattr(GREEDY, name), dtype=DTYPES[name]) for name in DTYPES}

    def assign(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Write how the tokens of joining requests are chosen."""
        for row, choice in zip(rows, choices, strict=True):
            self._by_row[row] = choice
            for name, values in self._by_name.items():
                values[row] = getattr(choice.sampling or GREEDY, name)

    def of(self, row: Array) -> list[TokenChoice]:
        """Return the choices of the requests of a batch."""
        return [self._by_row.get(one, UNCONSTRAINED) for one in row.tolist()]

    def has_sampled(self, row: Array) -> bool:
        """Return whether any of these rows is sampled."""
        return bool((self._by_name["temperature"][row] > 0).any())

    def needs_distribution(self, row: Array) -> bool:
        """Return whether any of these rows is sampled, asks for log-probabilities, or has penalties or biases."""
        choices = self.of(row)
        is_ruled = any(choice.rules is not None and choice.rules.has_strengths for choice in choices)
        return is_ruled or self.has_sampled(row) or most_top(choices) is not None

    def hands_states(self, row: Array) -> bool:
        """Return whether any of these rows is handed hidden states."""
        return hands_states(self.of(row))

    def is_greedy(self, row: Array) -> Array:
        """Return which of these rows are greedy, bool [request]."""
        greedy: Array = self._by_name["temperature"][row] == 0
        return greedy

    def seeds(self, row: Array) -> Array:
        """Return seeds, int64 [request]."""
        return self._by_name["seed"][row]

    def parameters(self, row: Array) -> dict[str, Array]:
        """Return what a sampled verification takes besides coins and logits."""
        return {name: values[row] for name, values in self._by_name.items() if name != "seed"}
