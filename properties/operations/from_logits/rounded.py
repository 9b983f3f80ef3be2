"""What a sampler may emit where its rows are rounded: every outcome that some rows could have which round to these.

Each probability is known to one unit in its last place: half of it is its own rounding, the other half that of the
arithmetic which takes it up. All that follows is rational: the least and the largest value that a bound of a coin, or
an edge of a draw, may have. A coin outside of that range leaves no choice. A coin inside it may decide either way, and
as much as that is, rounding the inputs alone may change of the law.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil

import numpy as np

from specsim.contracts.rounding import EPSILON
from specsim.properties.distribution import EVERYTHING, GRID, NOTHING, Coins, Outcome
from specsim.properties.laws.sampling_cells import children_by_token, proposal_row
from specsim.properties.strategies.sampling_scenes import ChainScene, TreeScene

UNIT = Fraction(EPSILON)
LEAST_UNIT = Fraction(1, 2**149)
"""The unit of subnormal numbers."""


@dataclass(frozen=True)
class Range:
    """The least and the largest value that a number may have."""

    low: Fraction
    high: Fraction

    def times(self, other: "Range") -> "Range":
        """Return the range of a product of two numbers of 0 or more."""
        return Range(self.low * other.low, self.high * other.high)

    def less(self, other: "Range") -> "Range":
        """Return the range of what is left after another number is taken away, 0 at least."""
        return Range(max(self.low - other.high, NOTHING), max(self.high - other.low, NOTHING))


ALL = Range(EVERYTHING, EVERYTHING)
NONE = Range(NOTHING, NOTHING)


def known(value: Fraction) -> Range:
    """Return what a rounded probability may be; 0 is 0, because what is impossible is no matter of rounding."""
    unit = max(value * UNIT, LEAST_UNIT) if value else NOTHING
    return Range(max(value - unit, NOTHING), value + unit)


def quotient(part: Range, whole: Range) -> Range:
    """Return the range of a ratio of two independent numbers; 0 where nothing is divided by nothing."""
    low = part.low / whole.high if whole.high else NOTHING
    return Range(low, part.high / whole.low) if whole.low else Range(low, EVERYTHING)


def share(part: Range, rest: Range) -> Range:
    """Return the range of ``part / (part + rest)``, which grows with the part and shrinks with the rest."""
    low, high = part.low + rest.high, part.high + rest.low
    return Range(part.low / low if low else NOTHING, part.high / high if high else EVERYTHING)


def total(ranges: Sequence[Range]) -> Range:
    """Return the range of a sum."""
    return Range(sum((one.low for one in ranges), NOTHING), sum((one.high for one in ranges), NOTHING))


class Draw:
    """A draw by prefix sums from weights of which the ranges are known; ``slack`` is what sums may add to an edge.

    Where nothing may be left to draw from, the last token may come out (semantics B.8), and any that could be drawn
    from ``instead`` (B.9c).
    """

    def __init__(self, weights: Sequence[Range], slack: Fraction, instead: Sequence[Range] = ()) -> None:
        edges = [share(total(weights[:place]), total(weights[place:])) for place in range(len(weights) + 1)]
        self._possible = [token for token, weight in enumerate(weights) if weight.high]
        self._edges = [NONE, *edges[1:-1], ALL]
        self._slack = slack
        others = [token for token, weight in enumerate(instead) if weight.high]
        self._instead = [] if total(weights).low else [len(weights) - 1, *others]

    def possible(self, coin: Fraction) -> list[int]:
        """Return the tokens that a coin may draw."""
        edges, slack = self._edges, self._slack
        inside = [one for one in self._possible if edges[one].low - slack <= coin < edges[one + 1].high + slack]
        return inside + self._instead

    def coins(self) -> set[int]:
        """Return coins on either side of every edge, on the grid."""
        return {coin for edge in self._edges[1:-1] for coin in beside(edge, self._slack)}


def beside(edge: Range, slack: Fraction) -> tuple[int, int]:
    """Return the last coin below the range of an edge, and the first after it, both on the grid."""
    below = ceil((edge.low - slack) * GRID) - 1
    return min(max(below, 0), GRID - 1), min(max(ceil((edge.high + slack) * GRID), 0), GRID - 1)


@dataclass(frozen=True)
class Judged:
    """One request by a sampler's rule, on ranges in place of numbers.

    Parameters
    ----------
    tests : sequence
        Of each coin that judges drafts, the bounds that it is compared with.
    draws : mapping
        What the last token is drawn from, by the tokens before it.
    possible : callable
        Returns what may be emitted at some coins, that of the last token last.
    slack : Fraction
        What sums of the sampler's own may add to an edge.
    """

    tests: Sequence[Sequence[Range]]
    draws: Mapping[Outcome, Draw]
    possible: Callable[[Sequence[Fraction]], set[Outcome]]
    slack: Fraction

    def coins(self) -> Coins:
        """Return coins at 0, at the largest below 1, and on either side of each edge, in all combinations."""
        ends = {0, GRID - 1}
        axes = [ends | {coin for edge in edges for coin in beside(edge, self.slack)} for edges in self.tests]
        axes.append(ends | {coin for draw in self.draws.values() for coin in draw.coins()})
        coins: Coins = (np.array(list(product(*map(sorted, axes)))) / GRID).astype(np.float32)
        return coins


def one_by_one(scene: ChainScene, draft: Outcome, slack: Fraction) -> Judged:
    """Return a chain whose drafts are judged one after another."""
    bounds, draws = [], {}
    for place, token in enumerate(draft):
        target, proposal = _rows(scene, draft, place)
        bounds.append(quotient(target[token], proposal[token]))
        draws[draft[:place]] = Draw([p.less(q) for p, q in zip(target, proposal, strict=True)], slack, target)
    draws[draft] = Draw([known(p) for p in scene.target[draft]], slack)

    def possible(coins: Sequence[Fraction]) -> set[Outcome]:
        found: set[Outcome] = set()
        for place, (coin, bound) in enumerate(zip(coins, bounds, strict=False)):
            if coin >= bound.low - slack:
                found |= _drawn(draws, draft[:place], coins[-1])
            if not (bound.high and coin < bound.high + slack):
                return found
        return found | _drawn(draws, draft, coins[-1])

    return Judged([[bound] for bound in bounds], draws, possible, slack)


def as_a_block(scene: ChainScene, draft: Outcome, slack: Fraction) -> Judged:
    """Return a chain whose drafts are judged together."""
    part, bounds, draws = ALL, [], {}
    for place, token in enumerate(draft):
        target, proposal = _rows(scene, draft, place)
        rest = [part.times(p).less(q) for p, q in zip(target, proposal, strict=True)]
        draws[draft[:place]] = Draw(rest, slack, target)
        if place:
            bounds.append(_chance(part, total(rest)))
        ratio = part.times(quotient(target[token], proposal[token]))
        part = Range(min(ratio.low, EVERYTHING), min(ratio.high, EVERYTHING))
    draws[draft] = Draw([known(p) for p in scene.target[draft]], slack)
    bounds += [part] * bool(draft)

    def possible(coins: Sequence[Fraction]) -> set[Outcome]:
        found: set[Outcome] = set()
        for count in range(len(draft), 0, -1):
            coin, bound = coins[count - 1], bounds[count - 1]
            if bound.high and coin < bound.high + slack:
                found |= _drawn(draws, draft[:count], coins[-1])
            if coin < bound.low - slack:
                return found
        return found | _drawn(draws, (), coins[-1])

    return Judged([[bound] for bound in bounds], draws, possible, slack)


def _chance(part: Range, rest: Range) -> Range:
    """Return the chance of a front that others follow, which grows with its share and with the mass that it leaves."""
    low, high = rest.low + 1 - part.low, rest.high + 1 - part.high
    return Range(rest.low / low if low else EVERYTHING, rest.high / high if high else EVERYTHING)


def along_a_tree(scene: TreeScene, slack: Fraction) -> Judged:
    """Return a tree, whose siblings are tried one after another by one coin."""
    tests: list[list[Range]] = []
    draws: dict[Outcome, Draw] = {}
    masses: dict[int, list[tuple[int, int, Range]]] = {}
    paths: dict[int, Outcome] = {0: ()}
    for node, row in enumerate(scene.rows):
        children = children_by_token(scene, node) if scene.topology.depths[node] < scene.num_steps else {}
        shares = {token: known(row[token]) for token in children}
        masses[node] = [
            (child, token, total(list(shares.values())[: place + 1]))
            for place, (token, child) in enumerate(children.items())
        ]
        tests.append([mass for _, _, mass in masses[node]])
        paths |= {child: (*paths[node], token) for token, child in children.items() if node in paths}
        if node in paths:
            rest = [NONE if token in children else known(share) for token, share in enumerate(row)]
            draws[paths[node]] = Draw(rest, slack)

    def possible(coins: Sequence[Fraction], node: int = 0) -> set[Outcome]:
        found: set[Outcome] = set()
        for child, token, mass in masses[node]:
            is_possible = scene.rows[node][token] > 0
            if is_possible and coins[node] < mass.high + slack:
                found |= possible(coins, child)
            if is_possible and coins[node] < mass.low - slack:
                return found
        return found | _drawn(draws, paths[node], coins[-1])

    return Judged(tests, draws, possible, slack)


def _rows(scene: ChainScene, draft: Outcome, place: int) -> tuple[list[Range], list[Range]]:
    """Return both rows of a draft; that of one that was not drawn is no matter of rounding."""
    proposal = proposal_row(scene, draft, place)
    target = [known(p) for p in scene.target[draft[:place]]]
    return target, [Range(q, q) if scene.certain is not None else known(q) for q in proposal]


def _drawn(draws: Mapping[Outcome, Draw], front: Outcome, coin: Fraction) -> set[Outcome]:
    return {(*front, token) for token in draws[front].possible(coin)}


def require_possible(what: str, judged: Judged, coins: Coins, emitted: Sequence[Outcome]) -> None:
    """Raise AssertionError at the first outcome that no rows have which round to those of the request."""
    for row, outcome in zip(coins.tolist(), emitted, strict=True):
        possible = judged.possible([Fraction(coin) for coin in row])
        if outcome not in possible:
            expected = " or ".join(str(list(one)) for one in sorted(possible))
            raise AssertionError(f"tokens at coins {row}, {what} = {list(outcome)}, but should be {expected}")
