"""Faults of ranks that agree on decisions: one that is not sent, and one that a rank edits after it was."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from specsim.host.ranks import DECISIONS
from specsim.properties.mutants.record import Function, Mutant

_BROADCAST = "broadcast_decision"
FIRST_NUMBER = 5150


def _not_sent(decision: str) -> Callable[[Function], Function]:
    """Let every rank go on with a decision of its own."""

    def inject(correct: Function) -> Function:
        return lambda what, own, group: own if what == decision else correct(what, own, group)

    return inject


def _edited(decision: str, edit: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Let every rank but the first edit a decision after it was sent."""

    def inject(correct: Function) -> Function:
        def broadcast(what: str, own: Any, group: Any) -> Any:
            decided = correct(what, own, group)
            return edit(decided) if what == decision and group.rank > 0 else decided

        return broadcast

    return inject


def _mutants() -> Iterator[tuple[str, Callable[[Function], Function]]]:
    for decision in DECISIONS:
        yield f"Ranks do not agree on {decision}.", _not_sent(decision)
    yield (
        "A rank cuts accepted drafts to a simulated length after they were sent.",
        _edited("accepted drafts", lambda decided: np.minimum(decided, 1)),
    )
    yield (
        "A rank cuts verify lengths by its own memory after they were sent.",
        _edited("verify lengths", lambda decided: np.minimum(decided, 2)),
    )
    yield "All ranks speak at once.", lambda correct: lambda what, own, group: group.sum(what, own).astype(own.dtype)
    yield "The last rank decides.", lambda correct: _last_speaks


def _last_speaks(what: str, own: Any, group: Any) -> Any:
    values = own.astype(np.int64)
    return group.sum(what, values if group.rank == group.members[-1] else values * 0).astype(own.dtype)


MUTANTS = tuple(
    Mutant(f"OWN-{number}", _BROADCAST, summary, inject)
    for number, (summary, inject) in enumerate(_mutants(), FIRST_NUMBER)
)
