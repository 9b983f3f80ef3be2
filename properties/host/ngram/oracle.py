"""An n-gram store, a corpus and their drafts as plain lists: slow, and easy to see through."""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from specsim.host.ngram import NgramParameters, TreeMode

Path = tuple[int, ...]
Below = Callable[[Path], list[tuple[int, int]]]
"""Tokens after a path with their counts, the most recent first."""

Number = type[Fraction] | type[float]
EXACT_AND_ROUNDED: tuple[Number, ...] = (Fraction, float)
"""What breadths and probabilities may be computed in: where the two differ, both are right."""


class PlainStore:
    """Paths in one list, the latest first, and how often each was passed since it is there."""

    def __init__(self, parameters: NgramParameters) -> None:
        self.parameters = parameters
        self.latest: list[Path] = []
        self.counts: dict[Path, int] = {}
        self.num_forgotten = 0

    @property
    def num_nodes(self) -> int:
        """Paths, and the root."""
        return len(self.latest) + 1

    def insert(self, text: Path) -> None:
        """Pass every window of a text."""
        for start in range(len(text)):
            self.insert_window(text[start : start + self.parameters.max_depth])

    def insert_window(self, window: Path) -> None:
        """Make room for all of a window, and count each of its fronts."""
        while self.num_nodes + len(window) > self.parameters.capacity:
            del self.counts[self.latest.pop()]
            self.num_forgotten += 1
        passed = [window[:length] for length in range(1, len(window) + 1)]
        for path in passed:
            self.counts[path] = self.counts.get(path, 0) + 1
        self.latest = [*passed, *(path for path in self.latest if path not in passed)]

    def below(self) -> Below:
        """Return what follows each path."""
        found: dict[Path, list[tuple[int, int]]] = {}
        for path in self.latest:
            found.setdefault(path[:-1], []).append((path[-1], self.counts[path]))
        return lambda path: found.get(path, [])


def below_documents(documents: Sequence[Path]) -> Below:
    """Return what follows each path in some documents, where later places are more recent."""

    def below(path: Path) -> list[tuple[int, int]]:
        length = len(path)
        following = [
            document[start + length]
            for document in documents
            for start in range(len(document) - length)
            if document[start : start + length] == path
        ]
        counts = Counter(following)
        return [(token, counts[token]) for token in dict.fromkeys(following[::-1])]

    return below


def created_nodes(below: Below, context: Path, parameters: NgramParameters, most: int, number: Number) -> list[Path]:
    """Return the paths of a draft after its root, in the order in which they come into being."""
    ends = [context[-length:] for length in range(min(len(context), parameters.max_depth), 0, -1)]
    anchors = [end for end in ends if below(end)]
    grow = _by_breadth if parameters.mode is TreeMode.BFS else _by_probability
    return grow(below, anchors, parameters, most, number)


def numbered_nodes(created: Sequence[Path]) -> list[Path]:
    """Return paths level by level, siblings in the order in which they came into being."""
    level: list[Path] = [()]
    found: list[Path] = []
    while level:
        level = [path for above in level for path in created if len(path) > len(above) and path[:-1] == above]
        found += level
    return found


def merged_nodes(drafts: Sequence[Sequence[Path]]) -> list[Path]:
    """Return the paths of several drafts, leaf by leaf in the order of their numbers."""
    merged: dict[Path, None] = {}
    for created in drafts:
        for path in numbered_nodes(created):
            if not any(other[:-1] == path for other in created):
                merged.update(dict.fromkeys(path[:length] for length in range(1, len(path) + 1)))
    return list(merged)


def _by_breadth(below: Below, anchors: list[Path], sizes: NgramParameters, most: int, number: Number) -> list[Path]:
    depth = max(1, sizes.max_depth - 1)
    narrower = number(sizes.max_breadth - sizes.min_breadth) / depth
    created: list[Path] = []
    for anchor in anchors:
        start: tuple[Path, Fraction | float, Path] = ((), (depth - len(anchor)) * narrower + sizes.min_breadth, anchor)
        waiting = [start]
        while waiting:
            place, breadth, path = waiting.pop(0)
            for token, _ in below(path)[: max(1, int(breadth))]:
                if len(created) == most:
                    return created
                child = (*place, token)
                if child not in created:
                    created.append(child)
                waiting.append((child, breadth - narrower, (*path, token)))
    return created


def _by_probability(below: Below, anchors: list[Path], sizes: NgramParameters, most: int, number: Number) -> list[Path]:
    created: list[Path] = []
    waiting: list[tuple[Fraction | float, Path, Path]] = []

    def meet(place: Path, path: Path, probability: Fraction | float) -> None:
        followed = sorted(below(path), key=lambda one: (-one[1], one[0]))[: sizes.max_breadth]
        total = sum(count for _, count in followed)
        for token, count in followed:
            waiting.append((number(count) / total * probability, (*place, token), (*path, token)))

    for anchor in anchors:
        meet((), anchor, number(1))
        while waiting and len(created) < most:
            best = max(range(len(waiting)), key=lambda place: waiting[place][0])
            probability, child, path = waiting.pop(best)
            if child not in created:
                created.append(child)
            meet(child, path, probability)
    return created
