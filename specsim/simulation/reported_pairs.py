"""What two engines report of the same requests, compared as it grows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specsim.simulation.history import Divergence
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.requests import Request
from specsim.simulation.scored import is_same_score, is_same_state

IsSame = Callable[[Any, Any], bool]


@dataclass(frozen=True)
class _Pair:
    """A request of each engine, and how many entries of each list of them have been compared."""

    expected: Request
    got: Request
    places: tuple[int, ...]

    @property
    def is_over(self) -> bool:
        return self.expected.finish is not None and self.got.finish is not None


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
        self._pairs: list[_Pair] = []

    def add(self, expected: Request, got: Request) -> None:
        """Watch a request from its submission on."""
        if expected.choice.wants_report:
            self._pairs.append(_Pair(expected, got, (0,) * len(self._lists)))

    def first_divergence(self, iteration: int) -> Divergence | None:
        """Return the first difference in what has been reported since the last call; forget who has ended."""
        running: list[_Pair] = []
        for pair in self._pairs:
            places = []
            for (name, is_same), begin in zip(self._lists.items(), pair.places, strict=True):
                reported = vars(pair.expected)[name], vars(pair.got)[name]
                place = first_difference(*reported, begin, is_same)
                if place < max(map(len, reported)):
                    shown = (one[place] if place < len(one) else "nothing" for one in reported)
                    where = (pair.expected.request_id, place)
                    return Divergence(iteration, "Request", name, where, *shown)
                places.append(place)
            if not pair.is_over:
                running.append(_Pair(pair.expected, pair.got, tuple(places)))
        self._pairs = running
        return None


def first_difference(expected: Sequence[Any], got: Sequence[Any], begin: int, is_same: IsSame) -> int:
    """Return the first place from ``begin`` on where two lists differ, or where one of them ends."""
    place, common = begin, min(len(expected), len(got))
    while place < common and is_same(expected[place], got[place]):
        place += 1
    return place
