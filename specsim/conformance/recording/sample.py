"""Which calls of an operation are kept."""

from random import Random


class Sample:
    """The first calls, and of all later ones as many as there are places, each with the same chance.

    Parameters
    ----------
    num_first, num_later : int
        Places of either kind.
    seed : str
        Decides which of the later calls are kept; the same calls and the same seed keep the same.
    """

    def __init__(self, num_first: int, num_later: int, seed: str) -> None:
        self._first = list(range(num_first))[::-1]
        self._num_first = num_first
        self._num_later = num_later
        self._num_offered = 0
        self._random = Random(seed)

    def place(self) -> int | None:
        """Return the place that the next call takes, used before or not, or None if it is not kept."""
        if self._first:
            return self._first.pop()
        self._num_offered += 1
        place = self._num_offered - 1
        if place >= self._num_later:
            place = self._random.randrange(self._num_offered)
        return self._num_first + place if place < self._num_later else None

    def give_back(self, place: int) -> None:
        """Leave a place to the next call: this one could not be kept."""
        if place < self._num_first:
            self._first.append(place)
