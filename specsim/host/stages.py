"""Pipeline stages: what each keeps of its requests, and what the last one, with sampler and drafter, relays to all.

A request is in flight on a stage from the launch of a round there until the record of that round arrives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from specsim.rejection import Reason, SpecRejection

NO_DRAFT = -1
"""Fills rows of fewer drafts than the round has: it is scheduled and never accepted."""


class RequestKey(NamedTuple):
    """Which request a row is of: by its number, or by a row of the tables and how many owners it has had."""

    request_id: int
    row: int
    generation: int


class LaunchedRow(NamedTuple):
    """A request of a round, and how many of its positions the round computes: a prompt, or the nodes of a draft."""

    request: RequestKey
    num_scheduled: int


class RelayedRow(NamedTuple):
    """What a round decided of one request.

    ``num_committed`` of the positions that it computed stay, which of a draft is the number of accepted tokens, and
    ``num_rejected`` do not; ``seq_len`` is the committed length afterwards. ``tokens`` has the bonus token and the
    drafts of the next round, each of which hangs from the node in ``parents``.
    """

    request: RequestKey
    num_committed: int
    num_rejected: int
    seq_len: int
    tokens: tuple[int, ...]
    parents: tuple[int, ...]


class Relay(NamedTuple):
    """The record of a round; all rows have as many tokens: 1 without drafts."""

    round_number: int
    rows: tuple[RelayedRow, ...]


class StageState(NamedTuple):
    """What a stage builds its next input of a request from.

    ``num_placeholders`` counts tokens of rounds in flight, whose ids are not known yet.
    """

    seq_len: int
    bonus_token: int
    draft_tokens: tuple[int, ...]
    parents: tuple[int, ...]
    num_placeholders: int


@dataclass
class _Held:
    """What a stage keeps of the owner of a row."""

    request: RequestKey
    seq_len: int = 0
    tokens: tuple[int, ...] = (NO_DRAFT,)
    parents: tuple[int, ...] = (NO_DRAFT,)
    num_placeholders: int = 0
    is_in_flight: bool = False


class PipelineStage:
    """What one stage keeps of its requests between rounds.

    Every stage gets the same joins, launches and ends in one order, and the same records in one order; only where a
    record comes between the others differs. Lengths advance with a launch as if everything were accepted.

    Parameters
    ----------
    stage, num_stages : int
        Which stage this is, and of how many; the last one decides.

    Raises
    ------
    SpecRejection
        WRONG_PHASE, of every method: the request is not there, or its row is taken.

    Notes
    -----
    Source: semantics Q.8.2.
    """

    def __init__(self, stage: int, num_stages: int) -> None:
        self.stage = stage
        self.num_stages = num_stages
        self._rows: dict[int, _Held] = {}

    def join(self, request: RequestKey) -> None:
        """Give a row to a request without any token."""
        if request.row in self._rows:
            raise _refuse(f"row {request.row}", self._rows[request.row].request, "free", "a row has one owner")
        self._rows[request.row] = _Held(request)

    def leave(self, request: RequestKey) -> None:
        """Free the row of a request that has ended or was aborted, in flight or not."""
        del self._rows[self._held(request).request.row]

    def is_ready(self, request: RequestKey) -> bool:
        """Return whether the bonus token of the last round of a request has arrived, so that its next can be built."""
        return not self._held(request).is_in_flight

    def launch(self, rows: Sequence[LaunchedRow]) -> None:
        """Count what a round computes as if all of it were accepted."""
        for held, num_scheduled in [(self._held(request), count) for request, count in rows]:
            held.is_in_flight = True
            held.seq_len += num_scheduled
            held.num_placeholders += num_scheduled

    def apply(self, relay: Relay) -> None:
        """Take what a round decided of the requests that are still there."""
        for row in relay.rows:
            held = self._rows.get(row.request.row)
            # NOTE: since the launch the request may have ended, and its row may have another owner.
            if held is not None and held.request == row.request:
                self._take(held, row)

    def state(self, request: RequestKey) -> StageState:
        """Return what the next input of a request is built from."""
        held = self._held(request)
        bonus, *drafts = held.tokens
        return StageState(held.seq_len, bonus, tuple(drafts), held.parents, held.num_placeholders)

    def _take(self, held: _Held, row: RelayedRow) -> None:
        self._trim(held, row)
        held.tokens, held.parents = row.tokens, row.parents
        held.is_in_flight = False

    def _trim(self, held: _Held, row: RelayedRow) -> None:
        """Take back what a launch counted and the round did not keep."""
        held.seq_len -= row.num_rejected
        held.num_placeholders -= row.num_committed + row.num_rejected

    def _held(self, request: RequestKey) -> _Held:
        held = self._rows.get(request.row)
        if held is None or held.request != request:
            raise _refuse(f"owner of row {request.row}", held and held.request, request, "the row is the request's")
        return held


def _refuse(what: str, got: object, expected: object, because: str) -> SpecRejection:
    return SpecRejection(Reason.WRONG_PHASE, what, got, str(expected), because)
