"""Which calls of an operation are kept, place by place, and what became of all others; any thread may ask."""

from random import Random
from threading import Lock

from specsim.conformance.recording.kept import Kept, Tally
from specsim.operations import RECORDS


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


LEFT_OUT = {
    "in_captures": "made while a graph was captured",
    "not_understood": "not understood",
    "too_large": "too large",
    "no_room": "without room",
}


class Held:
    """Samples of all operations.

    Parameters
    ----------
    limit : int
        Places of an operation: half of them, rounded up, for its first calls.
    seed : int
        Decides which of the later calls are kept.
    max_bytes, max_call_bytes : int
        Bytes of all copies that wait to be written, and of those of one call.
    """

    def __init__(self, limit: int, seed: int, max_bytes: int, max_call_bytes: int) -> None:
        self._num_first = (limit + 1) // 2
        self._num_later = limit // 2
        self._seed = seed
        self._max_bytes = max_bytes
        self._max_call_bytes = max_call_bytes
        self._num_bytes = 0
        self._lock = Lock()
        self._tallies = {name: Tally() for name in RECORDS}
        self._samples = {name: Sample(self._num_first, self._num_later, f"{seed} {name}") for name in RECORDS}
        self._kept: dict[str, dict[int, Kept]] = {name: {} for name in RECORDS}
        self._outdated: list[Kept] = []

    def afresh(self) -> "Held":
        """Return the same with nothing kept."""
        return Held(self._num_first + self._num_later, self._seed, self._max_bytes, self._max_call_bytes)

    @property
    def tallies(self) -> dict[str, Tally]:
        """What there was of each operation that was called."""
        return {name: tally for name, tally in self._tallies.items() if tally.calls}

    def offer(self, operation: str, is_capturing: bool) -> int | None:
        """Count a call, and return the place that it takes if it is kept."""
        with self._lock:
            self._tallies[operation].calls += 1
            if is_capturing:
                self._tallies[operation].in_captures += 1
                return None
            return self._samples[operation].place()

    def has_room(self, operation: str, place: int, num_bytes: int, num_before: int = 0) -> bool:
        """Reserve bytes for copies of a call that has so many already; without room its place goes back."""
        with self._lock:
            is_too_large = num_before + num_bytes > self._max_call_bytes
            if not is_too_large and self._num_bytes + num_bytes <= self._max_bytes:
                self._num_bytes += num_bytes
                return True
            tally = self._tallies[operation]
            tally.too_large += is_too_large
            tally.no_room += not is_too_large
            self._samples[operation].give_back(place)
            self._num_bytes -= num_before
            return False

    def misunderstand(self, operation: str, place: int, num_bytes: int) -> None:
        """Count a call that is not understood, and give back what was reserved for it."""
        with self._lock:
            self._tallies[operation].not_understood += 1
            self._samples[operation].give_back(place)
            self._num_bytes -= num_bytes

    def put(self, place: int, kept: Kept) -> None:
        """Keep a call, in the place of another one if it is taken."""
        with self._lock:
            before = self._kept[kept.operation].get(place)
            self._kept[kept.operation][place] = kept
            if before is None:
                return
            # NOTE: one that is being written just now is removed by who writes it.
            if before.is_let_go:
                self._outdated.append(before)
            else:
                self._num_bytes -= before.num_bytes

    def waiting(self) -> list[Kept]:
        """Return the calls that are not written."""
        with self._lock:
            return [one for places in self._kept.values() for one in places.values() if one.path is None]

    def outdated(self) -> list[Kept]:
        """Return the calls whose places others have taken since this was asked before."""
        with self._lock:
            found, self._outdated = self._outdated, []
            return found

    def let_go(self, kept: Kept) -> bool:
        """Take note that the copies of a call are no longer held, and return whether it still has its place."""
        with self._lock:
            is_kept = kept in self._kept[kept.operation].values()
            self._num_bytes -= kept.num_bytes * is_kept
            kept.is_let_go = is_kept
            return is_kept

    def forget(self, kept: Kept) -> None:
        """Drop a call that no case file can tell."""
        self._drop(kept)
        with self._lock:
            self._tallies[kept.operation].not_understood += 1

    def clear(self) -> None:
        """Let go of all that is not written."""
        for kept in self.waiting():
            self._drop(kept)

    def in_words(self) -> list[str]:
        """Return what was kept and what was not, a line each."""
        rule = f"the first {self._num_first} calls of each operation, and {self._num_later} of all later ones"
        lines = [f"{rule} drawn with seed {self._seed}"]
        for name, tally in self.tallies.items():
            counts = [f"{vars(tally)[why]:,} {words}" for why, words in LEFT_OUT.items() if vars(tally)[why]]
            kept = f"{len(self._kept[name]):,} of {tally.calls:,} calls kept"
            lines.append(f"{name}: {', '.join([kept, *counts])}")
        return lines

    def _drop(self, kept: Kept) -> None:
        self.let_go(kept)
        with self._lock:
            places = self._kept[kept.operation]
            self._kept[kept.operation] = {place: one for place, one in places.items() if one is not kept}
