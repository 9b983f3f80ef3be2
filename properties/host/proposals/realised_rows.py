"""The law that a sampler really draws from, measured on the noise that it is given: no sample, and no look inside.

A draw that races column k at ``arrival / weight`` decides between two columns by the ratio of their weights alone. So
the arrivals of two columns say where that ratio lies, all others being late; and early arrivals of one column lead a
walk to any prefix. It is the same for the largest of ``logit / T - log(arrival)``, which is Gumbel noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specsim.assertion import require
from specsim.properties.laws.checks import Array

EARLY, LATE = 2.0**-40, 2.0**40
"""Arrivals of a column that is to be drawn, and of columns that are not."""

LEAST_SHARE = 2.0**-60
"""A column whose share of a row is smaller is not raced: a late column would come before it."""

HALVINGS = 48
"""How often the interval is halved that a ratio of weights lies in."""

ULP = 2.0**-21
"""Relative error of a weight in float32, for each unit of its exponent and of the logarithm of an arrival."""

LOG_OF_ARRIVALS = 32
"""Bound of the logarithms of arrivals that decide, and of what is added to them."""


@dataclass(frozen=True)
class Drawn:
    """What a sampler has returned, as verification reads it.

    Parameters
    ----------
    tokens : int64 [request, draft]
        The drafts, in target ids.
    laws : float64 [request, draft, vocab]
        What verification takes each draft to be drawn from.
    """

    tokens: Array
    laws: Array


@dataclass(frozen=True)
class Sampler:
    """A batch of walks whose noise is an input.

    Parameters
    ----------
    draw : callable
        Takes arrivals, float64 [request, draft, column], and walks.
    columns : int64 [request, draft, column]
        The target's token of every arrival.
    arrivals : float64 [request, draft, column]
        Noise of the draws that are not looked at.
    temperatures : float32 [request]
        At 0 a request's drafts are not drawn, so that no arrival changes them.
    exponents : float64 [request]
        Bound of the exponents of a request's rows, logits over temperature, by which float32 rounds weights.
    """

    draw: Callable[[Array], Drawn]
    columns: Array
    arrivals: Array
    temperatures: Array
    exponents: Array


def require_realised(sampler: Sampler) -> None:
    """Raise AssertionError unless every draft is drawn from the law that is handed over for it, whatever came before.

    Every prefix that can be drawn is visited. Where a law is another, the message has the realised one and how far it
    is off in total variation.
    """
    for request, temperature in enumerate(sampler.temperatures.tolist()):
        if temperature == 0:
            _require_certain(sampler, request)
        else:
            _Walk(sampler, request).require_front(())


def realised_law(sampler: Sampler, request: int, front: tuple[int, ...] = ()) -> list[float]:
    """Return the shares that a request's columns are drawn with after the columns of a front."""
    return _Walk(sampler, request).realised(front)


def _require_certain(sampler: Sampler, request: int) -> None:
    """Raise AssertionError unless no arrival changes the drafts of a request, and they are handed over as certain."""
    drawn = sampler.draw(sampler.arrivals)
    expected, laws = drawn.tokens[request], drawn.laws[request]
    for place, token in enumerate(expected.tolist()):
        what = f"law recorded for draft {place + 1} of request {request} at temperature 0"
        is_certain = np.array_equal(laws[place], np.arange(laws.shape[1]) == token)
        require(is_certain, what, _shown(laws[place]), f"1 for token {token}, which is drawn")
    for column in range(sampler.columns.shape[2]):
        arrivals = sampler.arrivals.copy()
        arrivals[request] = LATE
        arrivals[request, :, column] = EARLY
        got = sampler.draw(arrivals).tokens[request]
        what = f"drafts of request {request} at temperature 0, column {column} of the noise early,"
        require(got.tolist() == expected.tolist(), what, got.tolist(), expected.tolist())


@dataclass(frozen=True)
class _Walk:
    """The walks of one request, while the noise of the others stays as it is."""

    sampler: Sampler
    request: int

    def require_front(self, front: tuple[int, ...]) -> None:
        """Check the draw after the columns of a front, and all that follow."""
        place = len(front)
        if place == self.sampler.columns.shape[1]:
            return
        law = self._recorded(front, self.sampler.arrivals[self.request, place])
        shares = [float(law[token]) for token in self.sampler.columns[self.request, place]]
        is_law = law.min() >= 0 and abs(law.sum() - 1) <= self._margin
        require(is_law, f"law recorded for {self._what(front)}", law.tolist(), "probabilities that add up to 1")
        elsewhere = float(law.sum()) - sum(shares)
        if elsewhere > self._margin or self._has_wrong_share(front, law, shares):
            realised = self.realised(front)
            apart = (sum(abs(one - other) for one, other in zip(realised, shares, strict=True)) + elsewhere) / 2
            tokens = self.sampler.columns[self.request, place].tolist()
            expected = (
                f"{_shown(shares)} as recorded, because the output is off by up to {apart:.4f} in total variation"
            )
            require(False, f"law of {self._what(front)} over tokens {tokens}", _shown(realised), expected)
        for column, share in enumerate(shares):
            if share >= LEAST_SHARE:
                self.require_front((*front, column))

    def realised(self, front: tuple[int, ...]) -> list[float]:
        """Return what share the columns are drawn with after a front, by the ratios at which two change places."""
        first = self._winner(front, np.ones(self.sampler.columns.shape[2]))
        weights = []
        for column in range(self.sampler.columns.shape[2]):
            low, high = -60.0, 1.0
            for _ in range(HALVINGS if column != first else 0):
                middle = (low + high) / 2
                row = self._late()
                row[[first, column]] = 1, 2**middle
                low, high = (middle, high) if self._winner(front, row) == column else (low, middle)
            weights.append(1.0 if column == first else 2**high if low > -60 else 0.0)
        return [weight / sum(weights) for weight in weights]

    @property
    def _margin(self) -> float:
        return float(ULP * (self.sampler.exponents[self.request] + LOG_OF_ARRIVALS))

    def _what(self, front: Sequence[int]) -> str:
        tokens = [int(self.sampler.columns[self.request, place, column]) for place, column in enumerate(front)]
        temperature = self.sampler.temperatures[self.request]
        return f"draft {len(front) + 1} of request {self.request} after {tokens} at temperature {temperature:g}"

    def _has_wrong_share(self, front: tuple[int, ...], law: Array, shares: Sequence[float]) -> bool:
        """Return whether a column is drawn more or less often than its recorded share says."""
        likeliest = max(range(len(shares)), key=lambda column: shares[column])
        for column, share in enumerate(shares):
            if column == likeliest:
                continue
            # NOTE: both arrive in the same moment at the recorded shares; a margin earlier or later decides.
            moments = [(share * (1 - self._margin), column), (share * (1 + self._margin), likeliest)]
            if share < LEAST_SHARE:
                moments = [(EARLY, likeliest)]
            for moment, expected in moments:
                row = self._late()
                row[[likeliest, column]] = shares[likeliest], moment
                if self._winner(front, row, law) != expected:
                    return True
        return False

    def _late(self) -> Array:
        return np.full(self.sampler.columns.shape[2], LATE)

    def _winner(self, front: tuple[int, ...], row: Array, law: Array | None = None) -> int:
        """Return which column is drawn after a front; the law that is recorded for the draw may not depend on it."""
        drawn = self._play(front, row)
        place = len(front)
        if law is not None:
            what = f"law recorded for {self._what(front)}, drawn otherwise"
            got = drawn.laws[self.request, place]
            require(np.array_equal(got, law), what, _shown(got), _shown(law))
        columns = self.sampler.columns[self.request, place].tolist()
        token = int(drawn.tokens[self.request, place])
        require(token in columns, self._what(front), token, f"one of {columns}")
        return int(columns.index(token))

    def _recorded(self, front: tuple[int, ...], row: Array) -> Array:
        law: Array = self._play(front, row).laws[self.request, len(front)]
        return law

    def _play(self, front: tuple[int, ...], row: Array) -> Drawn:
        """Walk with noise that leads to a front, and then has a row."""
        arrivals = self.sampler.arrivals.copy()
        for place, column in enumerate(front):
            arrivals[self.request, place] = LATE
            arrivals[self.request, place, column] = EARLY
        arrivals[self.request, len(front)] = row
        drawn = self.sampler.draw(arrivals)
        for place, column in enumerate(front):
            what = f"{self._what(front[:place])}, whose column {column} alone arrives early"
            token = int(self.sampler.columns[self.request, place, column])
            require(drawn.tokens[self.request, place] == token, what, drawn.tokens[self.request, place], token)
        return drawn


def _shown(shares: Sequence[float] | Array) -> str:
    return f"({', '.join(f'{share:.4f}' for share in shares)})"
