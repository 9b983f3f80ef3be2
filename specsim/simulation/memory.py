"""Slots and request rows: who owns what. Slot 0 is the dump, row 0 the padding row; neither is ever given out."""

import random
from collections.abc import Iterable
from dataclasses import dataclass

from specsim.rejection import Reason, SpecRejection


@dataclass(frozen=True)
class Snapshot:
    """The free numbers, in the order in which they are handed out, and the owned ones."""

    free: tuple[int, ...]
    owned: frozenset[int]


class Allocator:
    """A free list of numbers 1 … ``size-1``.

    Parameters
    ----------
    size : int
        How many numbers exist, the reserved 0 included.
    what : str
        ``slot`` or ``row``, for messages.
    shuffle_seed : int or None
        Hand numbers out in a shuffled order, so that neighbours in time are no neighbours in memory.
    """

    def __init__(self, size: int, what: str, shuffle_seed: int | None = None) -> None:
        self.size = size
        self._what = what
        self._free = list(range(size - 1, 0, -1))
        if shuffle_seed is not None:
            random.Random(shuffle_seed).shuffle(self._free)
        self._owned: set[int] = set()

    @property
    def num_free(self) -> int:
        """How many numbers nobody owns."""
        return len(self._free)

    @property
    def owned(self) -> frozenset[int]:
        """The numbers that somebody owns."""
        return frozenset(self._owned)

    def allocate(self, count: int) -> list[int]:
        """Hand out ``count`` numbers.

        Raises
        ------
        SpecRejection
            OUT_OF_SLOTS: fewer are free; nothing was handed out.
        """
        if count > len(self._free):
            raise SpecRejection(
                Reason.OUT_OF_SLOTS,
                what=f"allocation of {self._what}s",
                got=count,
                expected=f"at most {len(self._free)}",
                because="no more are free",
            )
        given = [self._free.pop() for _ in range(count)]
        self._owned.update(given)
        return given

    def snapshot(self) -> "Snapshot":
        """Return who owns what, for ``restore``."""
        return Snapshot(tuple(self._free), frozenset(self._owned))

    def restore(self, before: "Snapshot") -> None:
        """Take back everything that was handed out since a snapshot, as if it had never been.

        Raises
        ------
        SpecRejection
            DOUBLE_FREE: numbers were freed since, and would get their old owners back.
        """
        freed = before.owned - self._owned
        if freed:
            raise SpecRejection(
                Reason.DOUBLE_FREE,
                what=f"{self._what}s freed since the snapshot",
                got=sorted(freed),
                expected="none",
                because="they would belong to their old owners again",
            )
        self._free, self._owned = list(before.free), set(before.owned)

    def free(self, numbers: Iterable[int]) -> None:
        """Take numbers back.

        Raises
        ------
        SpecRejection
            DOUBLE_FREE: one of them has no owner, or occurs twice; nothing was taken back.
        """
        returned = list(numbers)
        if len(set(returned)) != len(returned) or not self._owned.issuperset(returned):
            foreign = sorted(set(returned) - self._owned) or sorted(returned)
            raise SpecRejection(
                Reason.DOUBLE_FREE,
                what=f"freed {self._what}s",
                got=foreign,
                expected="owned ones, each once",
                because="freeing twice gives one number to two owners",
            )
        self._owned.difference_update(returned)
        self._free.extend(returned)
