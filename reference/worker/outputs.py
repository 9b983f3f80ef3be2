"""What rows know of the output of their requests, as far as rules follow it."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.choice import TokenChoice, any_rules
from specsim.host.logit_rules import NO_RULES, NO_TOKEN, NUM_RECENT, LogitRules
from specsim.operations.protocol import Operations


class OutputRows:
    """What each row knows of its request's output; nothing is kept before a request has rules.

    It advances by committed tokens alone, and starts anew when the prompt of a request is through, from what the
    request has output by then.
    """

    def __init__(self, num_rows: int) -> None:
        self._num_rows = num_rows
        self.known: dict[str, Array] = {}

    def start(self, row: Array, choices: Sequence[TokenChoice], vocab_size: int) -> None:
        """Let rows know the outputs that their requests bring along."""
        self._allocate(vocab_size)
        for number, choice in zip(row.tolist(), choices, strict=True):
            output = list(choice.output)
            self.known["token_counts"][number] = np.bincount(output, minlength=vocab_size)
            self.known["num_output_tokens"][number] = len(output)
            self.known["recent_tokens"][number] = ([NO_TOKEN] * NUM_RECENT + output)[-NUM_RECENT:]

    def of(self, row: Array, vocab_size: int) -> dict[str, Array]:
        """Return what the rows of a batch know.

        Overlapped, a row may have rules before the prompt is through that starts it: a late launch of its last owner
        finds those of the next.
        """
        self._allocate(vocab_size)
        return {name: values[row] for name, values in self.known.items()}

    def commit(
        self,
        row: Array,
        choices: Sequence[TokenChoice],
        accept_index: Array,
        predict: Array,
        operations: Operations[Array],
    ) -> None:
        """Add what a verify committed; without rules in the batch nothing happens."""
        if any_rules(choices):
            counts_all = np.array([rules.is_exact for rules in rules_of(choices)], dtype=np.bool_)
            operations.commit_output_tokens(
                req_pool_indices=row,
                **self.known,
                accept_index=accept_index,
                predict=predict,
                counts_all=counts_all,
            )

    def _allocate(self, vocab_size: int) -> None:
        if not self.known:
            self.known = {
                "token_counts": np.zeros((self._num_rows, vocab_size), dtype=np.int32),
                "num_output_tokens": np.zeros(self._num_rows, dtype=np.int32),
                "recent_tokens": np.full((self._num_rows, NUM_RECENT), NO_TOKEN, dtype=np.int64),
            }


def rules_of(choices: Sequence[TokenChoice]) -> list[LogitRules]:
    """Return the rules of every request, those that change nothing where there are none."""
    return [choice.rules or NO_RULES for choice in choices]
