"""What two engines report of the same requests, compared as it grows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specsim.simulation.history import Divergence
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.requests import Request
from specsim.simulation.scored import is_same_score, is_same_state

IsSame = Callable[[Any, Any], bool]


@dataclass
class Pair:
    """A request of each engine, and how many entries of each of their lists have been compared."""

    expected: Request
    got: Request
    places: dict[str, int] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether both have ended."""
        return self.expected.finish is not None and self.got.finish is not None

    def difference(self, turn: int, lists: Mapping[str, IsSame], is_whole: bool = True) -> Divergence | None:
        """Return the first new difference of two lists; those that are not whole yet may differ in length."""
        for name, is_same in lists.items():
            one, other = vars(self.expected)[name], vars(self.got)[name]
            place = first_difference(one, other, self.places.get(name, 0), is_same)
            if place < (max if is_whole else min)(len(one), len(other)):
                shown = (entries[place] if place < len(entries) else "nothing" for entries in (one, other))
                return Divergence(turn, "Request", name, (self.expected.request_id, place), *shown)
            self.places[name] = place
        return None


def reported_lists(description: ModelDescription) -> dict[str, IsSame]:
    """Return the lists that are reported to the user of a request, and when two entries of them are the same.

    Tokens and alternatives have to be equal, scores as close as those of two correct softmaxes, and hidden states
    equal but for the rounding of floats.

    Parameters
    ----------
    description : ModelDescription
        By its vocabulary sums are rounded, by its type hidden states.
    """
    return {
        "logprobs": lambda one, other: is_same_score(one, other, description.vocab_size),
        "hidden_states": lambda one, other: is_same_state(one, other, description.hidden_dtype),
    }


class ReportedPairs:
    """Requests of an engine that is believed and of one that is tried, those alone that want reports.

    Parameters
    ----------
    description : ModelDescription
        The model of both.
    """

    def __init__(self, description: ModelDescription) -> None:
        self._lists = reported_lists(description)
        self._pairs: list[Pair] = []

    def add(self, expected: Request, got: Request) -> None:
        """Watch a request from its submission on."""
        if expected.choice.wants_report:
            self._pairs.append(Pair(expected, got))

    def first_divergence(self, iteration: int) -> Divergence | None:
        """Return the first difference in what has been reported since the last call; forget who has ended."""
        for pair in self._pairs:
            divergence = pair.difference(iteration, self._lists)
            if divergence is not None:
                return divergence
        self._pairs = [pair for pair in self._pairs if not pair.is_over]
        return None


def first_difference(expected: Sequence[Any], got: Sequence[Any], begin: int, is_same: IsSame) -> int:
    """Return the first place from ``begin`` on where two lists differ, or where one of them ends."""
    place, common = begin, min(len(expected), len(got))
    while place < common and is_same(expected[place], got[place]):
        place += 1
    return place
