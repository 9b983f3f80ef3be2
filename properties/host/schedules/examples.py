"""Schedules whose exact laws are tabulated: two requests of two tokens, two or three drafts each (semantics Q.1.1)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import product

from specsim.properties.distribution import Outcome, Row
from specsim.properties.host.schedules.exact_law import Lengths, Schedule, all_drafts
from specsim.properties.strategies.sampling_scenes import ChainScene

VOCAB = 2
HALF, WHOLE = Fraction(1, 2), Fraction(1)

Rows = Mapping[Outcome, Row]
Choose = Callable[[Outcome, Outcome], Lengths]
"""What a schedule sends of the drafts of two requests."""

Confidence = Callable[[Rows, Outcome, int], Fraction]
"""Of the rows that drafts are drawn from, the drafts of a request and a place: the confidence of the draft there."""

Order = Callable[[int, int, Outcome], tuple[int, ...]]
"""Of a place, a request and its drafts: what equal survivals are ordered by."""


def rows_of(chances: Iterable[Fraction], num_drafts: int) -> dict[Outcome, Row]:
    """Return the rows of two tokens in the order of their fronts, by length and then by token."""
    fronts = [front for length in range(num_drafts) for front in product(range(VOCAB), repeat=length)]
    return {front: (chance, 1 - chance) for front, chance in zip(fronts, chances, strict=True)}


def two_requests(
    target: Iterable[Fraction], proposal: Iterable[Fraction], num_drafts: int
) -> tuple[ChainScene, ChainScene]:
    """Return two requests that have the same rows, given by the chance of token 0."""
    last: dict[Outcome, Row] = dict.fromkeys(product(range(VOCAB), repeat=num_drafts), (Fraction(1, 3), Fraction(2, 3)))
    scene = ChainScene(num_drafts, {**rows_of(target, num_drafts), **last}, rows_of(proposal, num_drafts))
    return scene, scene


TWO_DRAFTS = two_requests(
    (Fraction(1, 2), Fraction(3, 4), Fraction(1, 4)), (Fraction(2, 3), Fraction(1, 2), Fraction(9, 10)), 2
)
THREE_DRAFTS = two_requests(
    (Fraction(1, 2), Fraction(3, 4), Fraction(1, 4), Fraction(2, 5), Fraction(1, 3), Fraction(5, 6), Fraction(3, 5)),
    (Fraction(2, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1, 4), Fraction(7, 10), Fraction(1, 2), Fraction(3, 10)),
    3,
)


def peak(proposal: Rows, draft: Outcome, place: int) -> Fraction:
    """Return a confidence that reads the drafts before the one that it is of."""
    return max(proposal[draft[:place]])


def drawn(proposal: Rows, draft: Outcome, place: int) -> Fraction:
    """Return a confidence that reads the draft itself."""
    return proposal[draft[:place]][draft[place]]


def equal(proposal: Rows, draft: Outcome, place: int) -> Fraction:
    """Return the same confidence for all drafts."""
    return HALF


def saturated(proposal: Rows, draft: Outcome, place: int) -> Fraction:
    """Return a confidence of 1/2, then of 1 after token 1 and of 1/4 after token 0."""
    return HALF if place == 0 else WHOLE if draft[0] == 1 else Fraction(1, 4)


def survivals(scene: ChainScene, draft: Outcome, confidence: Confidence) -> list[Fraction]:
    """Return the product of the confidences up to each draft."""
    found, share = list[Fraction](), WHOLE
    for place in range(scene.num_drafts):
        share *= confidence(scene.proposal, draft, place)
        found.append(share)
    return found


def by_position(place: int, request: int, draft: Outcome) -> tuple[int, ...]:
    """Order equal survivals by position, then by request."""
    return place, request


def deepest_first(place: int, request: int, draft: Outcome) -> tuple[int, ...]:
    """Order equal survivals from the last position on."""
    return -place, request


def by_drawn_value(place: int, request: int, draft: Outcome) -> tuple[int, ...]:
    """Order equal survivals of one position by the drawn token, the larger one first."""
    return place, -draft[place], request


def best(
    scenes: Sequence[ChainScene],
    budget: int | Callable[[Fraction], int],
    confidence: Confidence = peak,
    order: Order = by_position,
) -> Choose:
    """Return the schedule of so many drafts with the best survivals; ``budget`` may be a function of their sum."""

    def choose(*drafts: Outcome) -> Lengths:
        found = [survivals(scene, draft, confidence) for scene, draft in zip(scenes, drafts, strict=True)]
        ranked = sorted(
            (-share, order(place, request, drafts[request]), request)
            for request, row in enumerate(found)
            for place, share in enumerate(row)
        )
        kept = budget(sum((share for row in found for share in row), Fraction(0))) if callable(budget) else budget
        sent = [request for _, _, request in ranked[:kept]]
        return tuple(map(sent.count, range(len(scenes))))

    return choose


def other_than(least: Fraction, few: int, many: int) -> Callable[[Fraction], int]:
    """Return a budget that depends on a sum of survivals."""
    return lambda total: many if total >= least else few


def schedule_of(scenes: Sequence[ChainScene], choose: Choose) -> Schedule:
    """Return what a schedule chooses for every array of drafts."""
    return {drafts: choose(*drafts) for drafts in all_drafts(scenes)}


CONFIDENT, LEAST_SUM = Fraction(6, 10), Fraction(12, 5)

_best = partial(best, TWO_DRAFTS)

SCHEDULES: dict[str, Choose] = {
    **{f"best survivals, budget {budget}": _best(budget) for budget in range(5)},
    **{f"saturated, earlier drafts first, budget {budget}": _best(budget, saturated) for budget in (1, 2, 3)},
    **{
        f"saturated, later drafts first, budget {budget}": _best(budget, saturated, deepest_first)
        for budget in (1, 2, 3)
    },
    **{f"drawn token, budget {budget}": _best(budget, drawn) for budget in (1, 2, 3)},
    "budget of the sum": _best(int),
    "budget of the sum, 2 or 1": _best(other_than(LEAST_SUM, 1, 2)),
    "budget of the sum, 2 or 0": _best(other_than(LEAST_SUM, 0, 2)),
    **{f"ties by drawn value, budget {budget}": _best(budget, equal, by_drawn_value) for budget in (1, 3)},
    "none if the next confidence is low": (
        lambda a, b: (2 if max(TWO_DRAFTS[0].proposal[a[:1]]) >= CONFIDENT else 0, 2)
    ),
    "none if the first draft is 0": lambda a, b: (2 if a[0] else 0, 2),
    "none if the second draft is 0": lambda a, b: (2 if a[1] else 0, 2),
    "each by the other's first draft": lambda a, b: (2 if b[0] else 0, 2 if a[0] else 0),
    "by the other's first draft, all verified": lambda a, b: (2 if b[0] else 0, 2),
    "by the other's first draft, never verified": lambda a, b: (2 if b[0] else 0, 0),
    "all if the first drafts agree": lambda a, b: (2, 2) if a[0] == b[0] else (0, 0),
}
"""Schedules of two drafts a request, by what they choose by."""
