"""A free list of numbers: handed out from the front, each to one owner; rows of the request-to-token map are some."""

import random
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence

from specsim.rejection import Reason, SpecRejection, check_range


class FreeList:
    """The numbers 1 … ``size−1``; 0 is reserved.

    Parameters
    ----------
    size : int
        How many numbers exist, the reserved 0 included.
    what : str
        ``slot``, ``page`` or ``row``, for messages.
    shuffle_seed : int or None
        Start with a shuffled order, so that neighbours in time are no neighbours in memory.
    """

    def __init__(self, size: int, what: str, shuffle_seed: int | None = None) -> None:
        self.what = what
        numbers = list(range(1, size))
        if shuffle_seed is not None:
            random.Random(shuffle_seed).shuffle(numbers)
        self.numbers = deque(numbers)
        self.owned: set[int] = set()

    def __len__(self) -> int:
        return len(self.numbers)

    def check(self, count: int) -> None:
        """Refuse to hand out a negative number of them, or more than are free."""
        what = f"allocation of {self.what}s"
        check_range(Reason.COUNT_OUT_OF_RANGE, what, count, "what is handed out was needed", 0)
        check_range(Reason.OUT_OF_SLOTS, what, count, "no more are free", most=len(self.numbers))

    def take(self, count: int) -> list[int]:
        """Hand out the first numbers."""
        self.check(count)
        taken = [self.numbers.popleft() for _ in range(count)]
        self.owned.update(taken)
        return taken

    def append(self, numbers: Sequence[int]) -> None:
        """Take numbers back, after those that are free."""
        self.owned.difference_update(numbers)
        self.numbers.extend(numbers)

    def prepend(self, numbers: Sequence[int]) -> None:
        """Take numbers back, before those that are free."""
        self.owned.difference_update(numbers)
        self.numbers.extendleft(reversed(numbers))

    def replace(self, numbers: Iterable[int], owned: Iterable[int]) -> None:
        """Put back who owned what."""
        self.numbers, self.owned = deque(numbers), set(owned)

    def require_owned(self, numbers: Collection[int]) -> None:
        """Refuse to take numbers back that no one owns, or that are named twice."""
        if len(set(numbers)) == len(numbers) and self.owned.issuperset(numbers):
            return
        foreign = sorted(set(numbers) - self.owned)
        raise double_free(self.what, foreign or twice(numbers))


def twice(numbers: Iterable[int]) -> list[int]:
    """Return the numbers that occur more than once, ascending."""
    return sorted(number for number, count in Counter(numbers).items() if count > 1)


def double_free(what: str, numbers: Sequence[int]) -> SpecRejection:
    """Return the refusal to take numbers back."""
    because = "freeing twice gives one number to two owners"
    return SpecRejection(Reason.DOUBLE_FREE, f"freed {what}s", list(numbers), "owned ones, each once", because)


class RowAllocator:
    """Rows 1 … ``num_rows−1``, one a request; row 0 is for padding.

    Parameters
    ----------
    num_rows : int
        Rows of the map, row 0 included.
    shuffle_seed : int or None
        Start with a shuffled order.
    """

    def __init__(self, num_rows: int, shuffle_seed: int | None = None) -> None:
        self._rows = FreeList(num_rows, "row", shuffle_seed)

    @property
    def num_free(self) -> int:
        """Rows that can be handed out."""
        return len(self._rows)

    @property
    def owned(self) -> frozenset[int]:
        """Rows that a request has."""
        return frozenset(self._rows.owned)

    def allocate(self, count: int) -> list[int]:
        """Hand out the first rows."""
        return self._rows.take(count)

    def free(self, rows: Iterable[int]) -> None:
        """Take rows back, after those that are free."""
        returned = list(rows)
        self._rows.require_owned(returned)
        self._rows.append(returned)
