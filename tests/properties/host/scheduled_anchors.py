"""The schedules of the tables of scheduled verification: two requests, two or three drafts each, two tokens."""

from fractions import Fraction
from itertools import product

from specsim.properties.strategies.sampling_scenes import ChainScene

VOCAB = 2


def rows_of(chances, num_drafts):
    """Return the rows of two tokens in the order of their fronts, by length and then by token."""
    fronts = [front for length in range(num_drafts) for front in product(range(VOCAB), repeat=length)]
    return {front: (chance, 1 - chance) for front, chance in zip(fronts, chances, strict=True)}


def two_requests(target, proposal, num_drafts):
    last = dict.fromkeys(product(range(VOCAB), repeat=num_drafts), (Fraction(1, 3), Fraction(2, 3)))
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


def peak(proposal, draft, place):
    """A confidence that reads the drafts before the one that it is of."""
    return max(proposal[draft[:place]])


def drawn(proposal, draft, place):
    """A confidence that reads the draft itself."""
    return proposal[draft[:place]][draft[place]]


def equal(proposal, draft, place):
    return Fraction(1, 2)


def saturated(proposal, draft, place):
    """A confidence of 1/2, then of 1 after token 1 and of 1/4 after token 0."""
    return Fraction(1, 2) if place == 0 else Fraction(1) if draft[0] == 1 else Fraction(1, 4)


def survivals(scene, draft, confidence):
    found, share = [], Fraction(1)
    for place in range(scene.num_drafts):
        share *= confidence(scene.proposal, draft, place)
        found.append(share)
    return found


def by_position(place, request, draft):
    return place, request


def deepest_first(place, request, draft):
    return -place, request


def by_drawn_value(place, request, draft):
    return place, -draft[place], request


def best(scenes, budget, confidence=peak, order=by_position):
    """Return the schedule of so many drafts with the best survivals; ``budget`` may be a function of their sum."""

    def choose(*drafts):
        found = [survivals(scene, draft, confidence) for scene, draft in zip(scenes, drafts, strict=True)]
        ranked = sorted(
            (-share, order(place, request, drafts[request]), request)
            for request, row in enumerate(found)
            for place, share in enumerate(row)
        )
        kept = budget(sum(map(sum, found))) if callable(budget) else budget
        sent = [request for _, _, request in ranked[:kept]]
        return tuple(map(sent.count, range(len(scenes))))

    return choose


def schedule_of(scenes, choose):
    arrays = product(*([draft for draft, _ in scene.drafts()] for scene in scenes))
    return {drafts: choose(*drafts) for drafts in arrays}
