"""What two engines tell of the same requests, compared as it grows."""

from specsim.simulation.history import Divergence
from specsim.simulation.requests import Request
from specsim.simulation.scored import is_same_score


class ToldPairs:
    """Requests of an engine that is believed and of one that is tried, those alone that asked to be told.

    Tokens and alternatives have to be the same, and scores as close as those of two correct softmaxes.

    Parameters
    ----------
    vocab_size : int
        Tokens of the model, by which sums are rounded.
    """

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._pairs: list[tuple[Request, Request, int]] = []

    def add(self, expected: Request, got: Request) -> None:
        """Watch a request from its submission on."""
        if expected.top_logprobs is not None:
            self._pairs.append((expected, got, 0))

    def first_divergence(self, iteration: int) -> Divergence | None:
        """Return the first difference in what has been told since it was asked last; forget who has ended."""
        running: list[tuple[Request, Request, int]] = []
        for expected, got, place in self._pairs:
            one, other = expected.logprobs, got.logprobs
            common = min(len(one), len(other))
            while place < common and is_same_score(one[place], other[place], self._vocab_size):
                place += 1
            if place < max(len(one), len(other)):
                shown = (told[place] if place < len(told) else "nothing" for told in (one, other))
                return Divergence(iteration, "Request", "logprobs", (expected.request_id, place), *shown)
            if expected.finish is None or got.finish is None:
                running.append((expected, got, place))
        self._pairs = running
        return None
