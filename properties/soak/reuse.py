"""Rows that are used again, by how the request before left them."""

from collections import Counter
from collections.abc import Callable, Sequence

from specsim.simulation.requests import Request


class Reuse:
    """Counts owners of rows that somebody had before; a request that was retracted is somebody else when it returns."""

    def __init__(self, end_of: Callable[[int], str]) -> None:
        self.counts: Counter[str] = Counter()
        self._end_of = end_of
        self._last_owner: dict[int, int] = {}
        self._retracted: dict[int, int] = {}

    def note(self, holders: Sequence[Request]) -> None:
        """Look at the requests that have a row."""
        for request in holders:
            last = self._last_owner.get(request.row)
            number = request.request_id
            was_away = self._retracted.get(number, 0) != request.num_retractions
            if last is not None and (last != number or was_away):
                self.counts[self._end_of(last)] += 1
            self._last_owner[request.row] = number
            self._retracted[number] = request.num_retractions
