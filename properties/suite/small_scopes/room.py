"""Who gives way to a decode: no one while there is room, then the end of the batch, and no more than have to."""

from collections.abc import Sequence
from dataclasses import dataclass

from specsim.assertion import require
from specsim.counts import ceil_to
from specsim.properties.laws.checks import require_same
from specsim.properties.suite.small_scopes.state import World
from specsim.simulation.memory import Books, new_tokens_required_next_decode
from specsim.simulation.requests import Request
from specsim.simulation.scheduler import Scheduler


@dataclass(frozen=True)
class Room:
    """What there was before room was made.

    Parameters
    ----------
    holders : tuple of Request
        The batch, and after it the prompt that is not through.
    books : dict
        Their books, by request.
    num_needed, num_available : int
        Slots that the batch needs, and those that are free or could be.
    is_through : bool
        Whether no prompt is in the middle.
    """

    holders: tuple[Request, ...]
    books: dict[int, Books]
    num_needed: int
    num_available: int
    is_through: bool

    @classmethod
    def of(cls, world: World, scheduler: Scheduler) -> "Room":
        """Return what there is."""
        holders = tuple(scheduler.holders)
        books = {request.request_id: request.holding.books for request in holders}
        num_needed = _need(world, [request.holding.books for request in scheduler.running])
        return cls(holders, books, num_needed, num_obtainable(scheduler), scheduler.mid_prompt is None)

    def check(
        self, world: World, scheduler: Scheduler, given_back: Sequence[Request], ended: Sequence[Request]
    ) -> None:
        """Raise AssertionError unless the right ones gave way."""
        got = [request.request_id for request in (*given_back, *ended)]
        expected = [request.request_id for request in self.holders[::-1][: len(got)]]
        require_same("requests that give way to a decode", got, expected)
        if not got:
            return
        require(self.num_available < self.num_needed, "slots that a decode found", self.num_available, "enough for all")
        if self.is_through and given_back and not ended and scheduler.memory.cache is None:
            last = self.books[given_back[-1].request_id]
            running = [self.books[request.request_id] for request in scheduler.running]
            without = scheduler.slots.num_free - ceil_to(last.num_allocated, world.scope.page_size)
            need = _need(world, [*running, last])
            require(without < need, "slots without the last retraction", without, f"fewer than {need}")


def num_obtainable(scheduler: Scheduler) -> int:
    """Return the slots that are free, or cached and no one's."""
    cache = scheduler.memory.cache
    return scheduler.slots.num_free + (0 if cache is None else cache.num_evictable)


def _need(world: World, books: Sequence[Books]) -> int:
    return new_tokens_required_next_decode(books, world.sizes, world.scope.page_size)
