"""What leaves an engine, compared with its text position by position, and who is about to give memory back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.properties.laws.checks import require_same
from specsim.simulation.memory import Export, ExportLengths, Holding
from specsim.simulation.worker import ExportingWorker, Worker

RELEASES = ("release_finished", "release_retracted")
Leave = Callable[[str, Holding], None]


def nothing(name: str, holding: Holding) -> None:
    """Do nothing about a request that leaves."""


@dataclass
class Watched(CallsByName):
    """Operations of an engine; what a request has is shown to somebody before it is given back."""

    operations: CallsByName
    leave: Leave = field(default=nothing)

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call what stands under a name."""
        return self.operations.call(name, *positional, **named)

    def host(self, name: str) -> Callable[..., Any]:
        """Return a function of the host or a part; those that give memory back show whose it is."""
        function = self.operations.host(name)
        if name not in RELEASES:
            return function

        def release(memory: Any, holding: Holding, *others: Any, **named: Any) -> Any:
            self.leave(name, holding)
            return function(memory, holding, *others, **named)

        return release


@dataclass(frozen=True)
class Known:
    """What an export has to be derived from: a resolved text up to its end, and what was written of it.

    ``num_ahead`` tokens after a position have been consumed by the draft's entry there, those of ``num_cached``
    positions in any case.
    """

    text: Sequence[int]
    written: ExportLengths
    num_ahead: int
    num_cached: int
    page_size: int


def require_committed(what: str, export: Export, known: Known) -> None:
    """Raise AssertionError unless an export names exactly the positions that are written and left.

    A position leaves if its token is there and was fed, and with its draft entry if what that consumed is there, too. A
    page leaves if all of its positions do.
    """
    text, written, lengths = known.text, known.written, export.lengths
    fed = [position for position in range(len(text)) if position < written.target]
    require_same(f"positions of {what} that leave", lengths.target, len(fed))
    require_same(f"tokens of {what} that leave", export.tokens, tuple(text[position] for position in fed))
    require_same(f"slots of {what} that leave", len(export.slots), len(fed))
    drafted = {position for position in fed if position + known.num_ahead in range(min(written.draft, len(text)))}
    drafted |= set(range(known.num_cached))
    require_same(f"draft positions of {what} that leave", lengths.draft, len(drafted))
    states = written.states if written.states <= len(fed) else 0
    require_same(f"tokens in the states of {what} that leave", lengths.states, states)
    size = known.page_size
    pages = [page for page in range(len(fed)) if {*range(page * size, page * size + size)} <= drafted & {*fed}]
    require_same(f"pages of {what} that leave", export.num_pages, len(pages))


def copied(worker: Worker, row: int, slots: Sequence[int]) -> dict[str, list[Array]]:
    """Return what a worker hands out of some slots and of a row, or what lies there if it has no door for that."""
    if isinstance(worker, ExportingWorker):
        return worker.export(row, slots)
    state, chosen = worker.state(), list(slots)
    kv = {name: [buffer[chosen] for buffer in state[name]] for name in ("target_kv", "draft_kv")}
    return {**kv, "states": [buffer[row] for buffer in state.get("states", ())]}
