"""What an engine launched and what became of it, kept for a picture of the run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specsim.pictures.timeline import Activity, Column, Moment, draw_timeline
from specsim.simulation.requests import Request
from specsim.simulation.scheduler_protocol import SchedulerProtocol
from specsim.simulation.turns.launches import Launched

MOST_LAUNCHES, MOST_REQUESTS = 240, 64
"""Launches and requests that are kept: the first ones of a run, which are as many as a picture shows."""


class Watch(Protocol):
    """Gets what an engine does, in the order in which the host does it."""

    def launch(self, launched: Launched, scheduler: SchedulerProtocol) -> None:
        """Take a forward that was just launched."""

    def verified(self, launched: Launched, num_drafts: Sequence[int], num_accepted_drafts: Sequence[int]) -> None:
        """Take how many drafts each request of a launch was proposed, and how many the target accepted."""

    def result(self, launched: Launched, scheduler: SchedulerProtocol) -> None:
        """Take a forward whose result the host has just read; requests that it ended still have their slots."""


class Unwatched:
    """Keeps nothing."""

    def launch(self, launched: Launched, scheduler: SchedulerProtocol) -> None:
        """Do nothing."""

    def verified(self, launched: Launched, num_drafts: Sequence[int], num_accepted_drafts: Sequence[int]) -> None:
        """Do nothing."""

    def result(self, launched: Launched, scheduler: SchedulerProtocol) -> None:
        """Do nothing."""


UNWATCHED = Unwatched()


@dataclass
class _Kept:
    """A launch, its moments by request, what the host read before the next one, and the most slots in use."""

    launched: Launched
    moments: dict[int, Moment]
    num_slots: int
    results: list[int] = field(default_factory=list)


class Recorder:
    """Keeps the first launches of a run, and draws them.

    ``simulate`` and ``Engine`` take it as ``watch``. ``num_left_out`` counts the launches after those that are kept.

    Parameters
    ----------
    most_launches, most_requests : int
        How many of them are kept.
    """

    def __init__(self, most_launches: int = MOST_LAUNCHES, most_requests: int = MOST_REQUESTS) -> None:
        self._most_launches, self._most_requests = most_launches, most_requests
        self.num_left_out = 0
        self._kept: list[_Kept] = []
        self._requests: list[Request] = []
        self._retractions: dict[int, int] = {}
        self._num_verifies: dict[int, int] = {}
        self._num_usable = 0

    def launch(self, launched: Launched, scheduler: SchedulerProtocol) -> None:
        """Keep a forward that was just launched, and what each request does meanwhile."""
        if len(self._kept) == self._most_launches:
            self.num_left_out += 1
            return
        for request in (*scheduler.finished, *launched.requests, *scheduler.waiting):
            if len(self._requests) == self._most_requests:
                break
            if request.request_id not in self._retractions:
                self._requests.append(request)
                self._retractions[request.request_id] = 0
        chunks = launched.chunks or (None,) * len(launched.requests)
        part = {request.request_id: chunk for request, chunk in zip(launched.requests, chunks, strict=True)}
        moments = {}
        for request in self._requests:
            number = request.request_id
            chunk = part.get(number)
            if number in part:
                label = "" if chunk is None else str(chunk.end - chunk.start)
                moments[number] = Moment(Activity.VERIFY if chunk is None else Activity.PREFILL, label)
            elif request.num_retractions > self._retractions[number]:
                moments[number] = Moment(Activity.RETRACTED)
            elif request.finish is not None:
                moments[number] = Moment(Activity.FINISHED)
            else:
                moments[number] = Moment(Activity.IDLE if request.row else Activity.WAITING)
            self._retractions[number] = request.num_retractions
        slots = scheduler.memory.allocator
        self._num_usable = slots.num_slots - slots.page_size
        self._kept.append(_Kept(launched, moments, self._num_usable - slots.num_free))

    def verified(self, launched: Launched, num_drafts: Sequence[int], num_accepted_drafts: Sequence[int]) -> None:
        """Keep what was proposed and accepted in an iteration; of a request that was gone, that it is dropped."""
        kept = self._find(launched)
        if kept is None:
            return
        for request, proposed, accepted in zip(launched.requests, num_drafts, num_accepted_drafts, strict=True):
            number, num_verifies = request.request_id, request.counters.num_verifies
            if number in kept.moments:
                # NOTE: a result is dropped of a request that ended or lost its slots while it was on its way.
                counts = num_verifies > self._num_verifies.get(number, 0)
                activity = Activity.VERIFY if counts else Activity.DROPPED
                kept.moments[number] = Moment(activity, f"{accepted}/{proposed}")
                self._num_verifies[number] = num_verifies

    def result(self, launched: Launched, scheduler: SchedulerProtocol) -> None:
        """Keep that the host has read a result, which requests it ended, and how many slots are in use."""
        if self._kept and not self.num_left_out:
            number = next((place for place, one in enumerate(self._kept) if one.launched is launched), None)
            if number is not None:
                self._kept[-1].results.append(number)
        kept = self._find(launched)
        if kept is None:
            return
        kept.num_slots = max(kept.num_slots, self._num_usable - scheduler.memory.allocator.num_free)
        for request in launched.requests:
            moment = kept.moments.get(request.request_id)
            if moment is not None and request.finish is not None and moment.activity is not Activity.DROPPED:
                ended = Moment(moment.activity, moment.label, str(request.finish.reason))
                kept.moments[request.request_id] = ended

    def columns(self) -> list[Column]:
        """Return what is kept, a column a launch, with a moment for each of the kept requests."""
        numbers = [request.request_id for request in self._requests]
        return [
            Column(
                "prefill" if one.launched.chunks is not None else "verify",
                tuple(one.moments.get(number, Moment(Activity.WAITING)) for number in numbers),
                one.num_slots,
                tuple(one.results),
            )
            for one in self._kept
        ]

    def _repr_svg_(self) -> str:
        """Return the timeline as SVG, which notebooks show."""
        return self.draw()

    def draw(self, title: str = "timeline", *, prefix: str = "") -> str:
        """Return the timeline of the run as a document of SVG; see ``draw_timeline``."""
        rows = [f"request {request.request_id}" for request in self._requests]
        order = sorted(range(len(rows)), key=lambda place: self._requests[place].request_id)
        columns = [
            Column(one.kind, tuple(one.moments[place] for place in order), one.num_slots, one.results)
            for one in self.columns()
        ]
        notes = [f"{self.num_left_out} more launches are not drawn"] if self.num_left_out else []
        return draw_timeline([rows[place] for place in order], columns, self._num_usable, title, notes, prefix=prefix)

    def _find(self, launched: Launched) -> _Kept | None:
        return next((one for one in reversed(self._kept) if one.launched is launched), None)
