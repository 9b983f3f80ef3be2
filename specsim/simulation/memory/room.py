"""Room for a decode: what the cache gives back, who is retracted, who is given up (semantics I.5)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specsim.simulation.memory.holding import Holding, Memory

EVICTED_STEPS = 20
"""Tokens for each request that goes on that a retraction makes room for, so that the next one is not due at once."""

Demand = Callable[[Sequence[Holding]], int]


@dataclass(frozen=True)
class Room:
    """What a batch had to give up.

    Parameters
    ----------
    num_kept : int
        Requests that go on: the front of the batch.
    retracted : tuple of int
        Places of the retracted ones in the batch, in the order in which they join the end of the waiting queue.
    aborted : int or None
        Place of the one that was left and still finds no room; it ends, and nothing goes on.
    """

    num_kept: int
    retracted: tuple[int, ...] = ()
    aborted: int | None = None


def evict_for(memory: Memory, need: int) -> bool:
    """Have the cache give slots back if fewer are free than needed, and return whether enough are free now.

    The cache is asked for the whole need, not for what is missing; again, if what it gave back had no SWA slots left.
    """
    while memory.allocator.num_free < need and memory.cache is not None:
        evicted = memory.cache.evict(need)
        if not evicted:
            break
        memory.allocator.free(evicted)
    return memory.allocator.num_free >= need


def make_room(memory: Memory, batch: Sequence[Holding], demand: Demand, retract: Callable[[Holding], None]) -> Room:
    """Retract requests from the end of a batch until the others find room for a decode.

    Parameters
    ----------
    memory : Memory
        What is shared.
    batch : sequence of Holding
        The running requests in batch order.
    demand : callable
        Returns the slots that some of them need together.
    retract : callable
        Gives back what a request has.

    Notes
    -----
    Source: semantics I.5.
    """
    num_kept = len(batch)
    if evict_for(memory, demand(batch)):
        return Room(num_kept)
    retracted: list[int] = []
    while num_kept > 1:
        num_kept -= 1
        retract(batch[num_kept])
        retracted.append(num_kept)
        evict_for(memory, EVICTED_STEPS * num_kept)
        if evict_for(memory, demand(batch[:num_kept])):
            return Room(num_kept, tuple(retracted))
    return Room(0, tuple(retracted), aborted=0)
