"""What a request gives back when it ends or is retracted (semantics I.4)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specsim.counts import ceil_to, floor_to
from specsim.rejection import Reason, check_range
from specsim.simulation.memory.books import Books
from specsim.simulation.memory.holding import Holding, Memory
from specsim.simulation.memory.keys import KeyUnits, key_units, num_key_units
from specsim.simulation.memory.window import save_window


@dataclass(frozen=True)
class Release:
    """What becomes of the positions of a request.

    Parameters
    ----------
    num_protected : int
        Positions that the prefix cache has and keeps.
    num_key : int
        Positions that can be cached: whole pages of text that is resolved in both caches.
    num_owned : int
        Positions of text.
    scratch : tuple of int
        First and last but one position after the last page of text.
    """

    num_protected: int
    num_key: int
    num_owned: int
    scratch: tuple[int, int]

    def committed_ranges(self, num_cached: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the ranges of text that are freed.

        Parameters
        ----------
        num_cached : int
            Positions that the cache had before the text was inserted, whose slots are duplicates; ``num_key`` for a
            request that is retracted, of which nothing is inserted.
        """
        return (self.num_protected, num_cached), (max(self.num_key, self.num_protected), self.num_owned)


def owned_length(num_committed: int, num_prompt: int, finished_length: int | None) -> int:
    """Return the positions that hold text which was output.

    Parameters
    ----------
    num_committed : int
        Positions whose KV is final.
    num_prompt : int
        Tokens of the prompt.
    finished_length : int or None
        Output tokens up to the end of the request; None where nothing cuts it.

    Notes
    -----
    Source: semantics I.4. A result may commit positions after the token that ended the request.
    """
    return num_committed if finished_length is None else min(num_committed, num_prompt + finished_length)


def plan_release(books: Books, num_owned: int, page_size: int, has_pair_keys: bool, num_ahead: int = 1) -> Release:
    """Return what becomes of the positions of a request that owns so much text.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: less text than the prefix cache has of it, or more than is allocated.

    Notes
    -----
    Source: semantics I.4.
    """
    because = "a request ends after what the prefix cache has of it"
    check_range(Reason.COUNT_OUT_OF_RANGE, "num_owned", num_owned, because, books.num_protected, books.num_allocated)
    num_key = floor_to(num_key_units(num_owned, has_pair_keys, num_ahead), page_size)
    scratch_start = min(ceil_to(num_owned, page_size), books.num_allocated)
    return Release(books.num_protected, num_key, num_owned, (scratch_start, books.num_allocated))


PlanRelease = Callable[[Books, int, int, bool, int], Release]
"""As ``plan_release``."""


def release_finished(
    memory: Memory,
    holding: Holding,
    text: Sequence[int],
    num_owned: int,
    *,
    plan_release: PlanRelease = plan_release,
    key_units: KeyUnits = key_units,
) -> None:
    """Leave the text of a request that ended to the prefix cache and give back the rest, and its row.

    Parameters
    ----------
    memory : Memory
        What is shared.
    holding : Holding
        What the request has.
    text : sequence of int
        Prompt and output.
    num_owned : int
        Positions of text; see ``owned_length``.

    Notes
    -----
    Source: semantics I.4, I.9.
    """
    plan = plan_release(holding.books, num_owned, memory.page_size, memory.has_pair_keys, memory.num_ahead)
    num_cached = plan.num_key
    if memory.cache is not None:
        units = key_units(text[:num_owned], memory.has_pair_keys, memory.num_ahead)
        key = units[: plan.num_key]
        num_cached = memory.cache.insert(key, holding.slots[: plan.num_key])
        if memory.swa is not None:
            duplicates = slice(plan.num_protected, num_cached)
            save_window(memory, holding.slots[duplicates], memory.cache.match(key).slots[duplicates])
    _give_back(memory, holding, plan, num_cached)
    holding.books = holding.books.leave()


def release_retracted(memory: Memory, holding: Holding, *, plan_release: PlanRelease = plan_release) -> None:
    """Give back everything that a request has, but for what the prefix cache had before it; it keeps its output.

    Notes
    -----
    Source: semantics I.4.
    """
    books = holding.books
    plan = plan_release(books, books.num_committed, memory.page_size, memory.has_pair_keys, memory.num_ahead)
    _give_back(memory, holding, plan, plan.num_key)
    holding.books = holding.books.retract()


def _give_back(memory: Memory, holding: Holding, plan: Release, num_cached: int) -> None:
    holding.books = holding.books.free_committed()
    for start, end in plan.committed_ranges(num_cached):
        _free(memory, holding, start, end)
    holding.books = holding.books.free_overallocated()
    _free(memory, holding, *plan.scratch)
    if memory.cache is not None and holding.node is not None:
        memory.cache.unlock(holding.node)
    memory.rows.free([holding.books.row])
    holding.slots, holding.node, holding.num_evicted = [], None, 0


def _free(memory: Memory, holding: Holding, start: int, end: int) -> None:
    if start < end:
        memory.free(holding.slots[start:end])
