"""What an observer gets of events that fall between a launch and its result, and of rows that change owners at once."""

from collections.abc import Iterable, Sequence

from specsim.simulation.events import Observer, Tag, ignore
from specsim.simulation.requests import Request
from specsim.simulation.telling import STOPS
from specsim.simulation.turns.launches import Launched


class Overlaps:
    """Tells an observer what meets in an engine while results are late."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._is_watched = observer is not ignore
        self._last_rows: set[int] = set()
        self._freed_rows: set[int] = set()
        self._unfinished: list[Request] = []

    def begin_step(self, holders: Sequence[Request]) -> None:
        """Note which rows the step before has freed."""
        rows = {request.row for request in holders}
        self._freed_rows, self._last_rows = self._last_rows - rows, rows

    def launch(self, launched: Launched, in_flight: Iterable[Launched]) -> None:
        """Tell what a launch meets that is launched and not resolved."""
        if not self._is_watched:
            return
        if launched.chunks is not None and not self._freed_rows.isdisjoint(launched.rows):
            self._observer(Tag.ROW_AT_ONCE)
        self._last_rows |= {*launched.rows}
        own = dict(zip(launched.rows, _owners(launched), strict=True))
        for late in in_flight:
            others = dict(zip(late.rows, _owners(late), strict=True))
            if any(own[row] != others[row] for row in own.keys() & others.keys()):
                self._observer(Tag.ROW_IN_FLIGHT)
            is_chunk = any(chunk.next_token is not None for chunk in launched.chunks or ())
            if is_chunk and late.chunks is None and others.keys() - own.keys():
                self._observer(Tag.CHUNK_IN_FLIGHT)
            if not launched.requests and late.requests:
                self._observer(Tag.IDLE_IN_FLIGHT)

    def abort(self, request_id: int, holders: Sequence[Request], in_flight: Iterable[Launched]) -> None:
        """Tell whether a request that is to end is on its way."""
        for request in holders:
            if request.request_id == request_id and not request.is_aborted and _is_in(request, in_flight):
                self._observer(Tag.ABORT_IN_FLIGHT)

    def begin_result(self, launched: Launched, holders: Sequence[Request]) -> None:
        """Note who of a launch runs before its result is read, and tell who has come back before that."""
        self._unfinished = [request for request in launched.requests if request.finish is None]
        for request, num_retractions in zip(launched.requests, launched.num_retractions, strict=True):
            if request.num_retractions != num_retractions and any(request is one for one in holders):
                self._observer(Tag.BACK_IN_FLIGHT)

    def end_result(self, launched: Launched, in_flight: Iterable[Launched]) -> None:
        """Tell whether the result ended a request before the last of its tokens, and more of it is on its way.

        Of a run that is cut everything is committed, so that the text has fewer tokens than it would need.
        """
        for request in self._unfinished:
            is_cut = request.finish_reason in STOPS and request.num_fill <= request.num_committed
            if launched.chunks is None and is_cut and _is_in(request, in_flight):
                self._observer(Tag.STOP_IN_FLIGHT)

    def resize(self) -> None:
        """Tell whether the first result of other sizes ended a request."""
        if any(request.finish is not None for request in self._unfinished):
            self._observer(Tag.FINISH_AND_RESIZE)

    def empty(self, in_flight: Iterable[Launched]) -> None:
        """Tell that no request has a row and a result is late."""
        if any(late.requests for late in in_flight):
            self._observer(Tag.EMPTY_IN_FLIGHT)


def _owners(launched: Launched) -> list[tuple[int, int]]:
    """Return who has each row of a launch; a request that was retracted is somebody else when it returns."""
    ids = [request.request_id for request in launched.requests]
    return list(zip(ids, launched.num_retractions, strict=True))


def _is_in(request: Request, in_flight: Iterable[Launched]) -> bool:
    return any(request is one for late in in_flight for one in late.requests)
