"""What two engines report of the same requests, compared as it grows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specsim.assertion import require_present
from specsim.contracts.rounding import is_rounded_logprob, is_rounded_state
from specsim.simulation.comparing.autoregressive import PrefillDecoder
from specsim.simulation.comparing.history import Divergence
from specsim.simulation.logprobs import HiddenState, ReportedToken
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.requests import Request
from specsim.simulation.worker import TellingWorker


def unreported(worker: TellingWorker, request: Request) -> list[str]:
    """Return the first score of a greedy request that is not that of its text, token by token, as at most one line.

    Parameters
    ----------
    worker : TellingWorker
        It is idle: none of its slots and rows has an owner.
    """
    who, reported = f"request {request.request_id}", request.logprobs
    if request.top_logprobs is not None and [one.token for one in reported] != request.output:
        return [f"{who}, tokens that are reported: {[one.token for one in reported]} is not {request.output}"]
    if request.returns_hidden_states and len(request.hidden_states) != len(request.output):
        return [f"{who}, hidden states: {len(request.hidden_states)} is not {len(request.output)}"]
    expected, description = reported_alone(worker, request), worker.model.description
    for place, wanted in enumerate(expected):
        if request.top_logprobs is not None and not is_same_score(wanted, reported[place], description.vocab_size):
            return [f"{who}, logprobs[{place}]: {reported[place]} is not {wanted}"]
        if request.returns_hidden_states:
            states = require_present("a hidden state", wanted.hidden_state), request.hidden_states[place]
            if not is_same_state(*states, description.hidden_dtype):
                return [f"{who}, hidden_states[{place}]: {states[1]} is not {states[0]}"]
    return []


def is_same_score(expected: ReportedToken, got: ReportedToken, vocab_size: int) -> bool:
    """Return whether a token and its alternatives are the same, and their scores alike but for their rounding."""
    tokens = [(one.token, *(token for token, _ in (*one.top, *one.listed))) for one in (expected, got)]
    if tokens[0] != tokens[1] or len(expected.top) != len(got.top):
        return False
    scores = [
        np.array([one.logprob, *(score for _, score in (*one.top, *one.listed))], dtype=np.float64)
        for one in (expected, got)
    ]
    return bool(is_rounded_logprob(scores[0], scores[1], vocab_size).all())


def is_same_state(expected: HiddenState, got: HiddenState, dtype: str) -> bool:
    """Return whether two hidden states are as wide, and alike but for the rounding of two correct forwards."""
    if len(expected) != len(got):
        return False
    if dtype.startswith("int"):
        return expected == got
    return bool(is_rounded_state(np.array(expected), np.array(got), dtype))


def reported_alone(worker: TellingWorker, request: Request) -> list[ReportedToken]:
    """Return what prefills of one token after another tell of a greedy output."""
    decoder = PrefillDecoder(worker, request.choice_alone())
    for token in request.prompt:
        decoder.append(token)
    reported = []
    for token in request.output:
        decoder.next_token()
        ((one,),) = worker.told()
        reported.append(one)
        decoder.append(token)
    return reported


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
