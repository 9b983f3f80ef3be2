"""Faults of pipeline stages: one trims otherwise than the others, takes rows of others, or goes on too early."""

from collections.abc import Callable

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, mutants_by_number

_IS_LAST = "self.stage == self.num_stages - 1"
_LENGTH = "held.seq_len -= row.num_rejected"
_PLACEHOLDERS = "held.num_placeholders -= row.num_committed + row.num_rejected"
_IS_READY = "not self._held(request).is_in_flight"
_TAKEN = "row.tokens, row.parents"
_FREED = "del self._rows[self._held(request).request.row]"


def _on_the_last_alone(*statements: str) -> Callable[[Function], Function]:
    """Inject a fault that leaves statements to the last stage."""
    return edited(*(piece for one in statements for piece in (one, f"if {_IS_LAST}:\n    {one}")))


def _before_the_last(taken: str) -> Callable[[Function], Function]:
    """Inject a fault in the tokens and parents that stages before the last take from a record."""
    return edited(_TAKEN, f"({_TAKEN}) if {_IS_LAST} else ({taken})")


MUTANTS = mutants_by_number(
    "PipelineStage",
    {
        ("OWN-5100", "Only the last stage trims what a launch has counted."): _on_the_last_alone(
            _LENGTH, _PLACEHOLDERS
        ),
        ("OWN-5101", "Only the last stage trims lengths."): _on_the_last_alone(_LENGTH),
        ("OWN-5102", "Only the last stage trims placeholders."): _on_the_last_alone(_PLACEHOLDERS),
        ("OWN-5103", "No stage trims what a launch has counted."): edited(_LENGTH, "", _PLACEHOLDERS, ""),
        ("OWN-5104", "Every stage trims twice."): edited(_LENGTH, "held.seq_len -= 2 * row.num_rejected"),
        ("OWN-5105", "The accepted drafts are counted where the root stays too."): edited(
            _LENGTH, "held.seq_len -= row.num_rejected + 1"
        ),
        ("OWN-5106", "A stage builds the next round before the bonus token of the last one is there."): edited(
            _IS_READY, "self._held(request) is not None"
        ),
        ("OWN-5107", "The same on stages before the last."): edited(_IS_READY, f"{_IS_READY} or not {_IS_LAST}"),
        ("OWN-5108", "The same on stages between the first and the last."): edited(
            _IS_READY, f"{_IS_READY} or 0 < self.stage < self.num_stages - 1"
        ),
        ("OWN-5109", "A stage waits for the token of the prefill alone."): edited(
            _IS_READY, f"{_IS_READY} or self._held(request).tokens[0] != NO_DRAFT"
        ),
        ("OWN-5110", "Rows of a record are matched by position."): edited(
            "relay.rows",
            """
            [
                row._replace(request=held.request)
                for row, held in zip(
                    relay.rows,
                    [self._rows[row] for row in sorted(self._rows) if self._rows[row].is_in_flight],
                    strict=False,
                )
            ]
            """,
        ),
        ("OWN-5111", "Rows of a record go to the new owner of their row."): edited(
            "held is not None and held.request == row.request", "held is not None"
        ),
        ("OWN-5112", "A record with a request that has ended is dropped."): edited(
            "relay.rows",
            "relay.rows if {row.request for row in relay.rows} <= {one.request for one in self._rows.values()} else ()",
        ),
        ("OWN-5113", "Only the last stage gets drafts."): _before_the_last(
            "(row.tokens[0], *held.tokens[1:]), row.parents"
        ),
        ("OWN-5114", "Only the last stage gets bonus tokens and drafts."): _before_the_last("held.tokens, row.parents"),
        ("OWN-5115", "Only the last stage gets the tree of the drafts."): _before_the_last("row.tokens, held.parents"),
        ("OWN-5116", "A record has the width of the configuration."): edited(
            _TAKEN,
            "(*row.tokens, *held.tokens[len(row.tokens) :]), (*row.parents, *held.parents[len(row.parents) :])",
        ),
        ("OWN-5117", "Places without a draft hold token 0."): edited(
            _TAKEN, "tuple(max(token, 0) for token in row.tokens), row.parents"
        ),
        ("OWN-5118", "Every draft is a chain."): edited(_TAKEN, "row.tokens, tuple(range(-1, len(row.parents) - 1))"),
        ("OWN-5119", "Stages before the last miss the token after a prefill."): _before_the_last(
            "(0 if held.tokens == (NO_DRAFT,) else row.tokens[0], *row.tokens[1:]), row.parents"
        ),
        ("OWN-5120", "Stages before the last take tokens from a row that was left for those of another."): edited(
            _FREED,
            f"""
            tokens = self._held(request).tokens
            {_FREED}
            if self._rows and not {_IS_LAST}:
                self._rows[max(self._rows)].tokens = tokens
            """,
        ),
        ("OWN-5121", "A row's next owner begins at the length of the last one."): edited(
            "self._rows: dict[int, _Held] = {}",
            "self._rows, self._left = {}, {}",
            "_Held(request)",
            "_Held(request, self._left.get(request.row, 0))",
            _FREED,
            f"self._left[request.row] = self._held(request).seq_len\n{_FREED}",
        ),
    },
)
