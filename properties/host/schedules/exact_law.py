"""Exact laws of scheduled verification: each request sends a front of its drafts to the target, chosen from all drafts.

Every array of drafts is enumerated with its exact chance, and for each the law of what two requests output is a
rational number: no coin is drawn and no implementation's sampler is called. What is judged is the schedule.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache
from itertools import product

from specsim.properties.distribution import EVERYTHING, NOTHING, Distribution, Outcome, Row, autoregressive, extend
from specsim.properties.host.noise.races import total_variation
from specsim.properties.strategies.sampling_scenes import ChainScene

Drafts = tuple[Outcome, ...]
"""The drafts of every request of a batch."""

Lengths = tuple[int, ...]
"""How many drafts of each request are sent to the target."""

Schedule = Mapping[Drafts, Lengths]
"""What a schedule chooses for every array of drafts."""

Rows = Callable[[Outcome], Row]


class Form(StrEnum):
    """How the drafts that are sent are accepted, and where the token comes from when all of them are."""

    FRESH = "token by token, bonus token drawn at the cut"
    COUPLED = "token by token, next draft judged for the bonus token"
    BLOCK = "as one block that ends at the cut"
    CAPPED_BLOCK = "as one block of all drafts, capped at the cut"
    SAMPLED = "against the target's own draws"


def emitted_law(scene: ChainScene, draft: Outcome, length: int, form: Form) -> Distribution:
    """Return the law of the tokens that one request outputs in the step.

    Parameters
    ----------
    scene : ChainScene
        The rows of target and proposal; no row may be lacking that a draft leads to.
    draft : tuple of int
        The drafted tokens.
    length : int
        Drafts that are sent to the target.
    form : Form
        The rule. A coupled one judges the draft after the cut too and keeps the tokens up to it. The capped block has
        uniform rows of the target after the cut, as logits of 0 give them.
    """
    target, proposal = scene.target.__getitem__, scene.proposal.__getitem__
    if form is Form.SAMPLED:
        return _against_draws(target, draft[:length])
    if form is Form.FRESH:
        return _token_by_token(target, proposal, draft[:length])
    if form is Form.COUPLED:
        return _capped(_token_by_token(target, proposal, draft[: length + 1]), length + 1)
    if form is Form.BLOCK:
        return _as_block(target, proposal, draft[:length])
    uniform = (Fraction(1, scene.vocab_size),) * scene.vocab_size
    return _capped(_as_block(lambda at: uniform if len(at) > length else target(at), proposal, draft), length + 1)


def _token_by_token(target: Rows, proposal: Rows, draft: Outcome) -> Distribution:
    law: Distribution = {}
    chance = EVERYTHING
    for place, token in enumerate(draft):
        front = draft[:place]
        p, q = target(front), proposal(front)
        kept = min(p[token] / q[token], EVERYTHING)
        _emit(law, front, chance * (1 - kept), _residual(p, q, EVERYTHING))
        chance *= kept
    _emit(law, draft, chance, target(draft))
    return law


def _as_block(target: Rows, proposal: Rows, draft: Outcome) -> Distribution:
    """Judge the fronts of a draft from the longest one down; the first whose coin says so is kept."""
    fronts = [draft[:place] for place in range(len(draft) + 1)]
    shares = [EVERYTHING]
    for front, token in zip(fronts, draft, strict=False):
        shares.append(min(shares[-1] * target(front)[token] / proposal(front)[token], EVERYTHING))
    law: Distribution = {}
    left = EVERYTHING
    for front, share in reversed([*zip(fronts, shares, strict=True)]):
        rest = list(target(front)) if front == draft else _residual(target(front), proposal(front), share)
        mass = sum(rest, NOTHING)
        kept = share if front == draft or share in (0, 1) else mass / (mass + 1 - share)
        kept = kept if front else EVERYTHING
        _emit(law, front, left * kept, rest)
        left *= 1 - kept
    return law


def _against_draws(target: Rows, draft: Outcome) -> Distribution:
    law: Distribution = {}
    chance = EVERYTHING
    for place, token in enumerate(draft):
        row = target(draft[:place])
        others = [NOTHING if one == token else share for one, share in enumerate(row)]
        _emit(law, draft[:place], chance * (1 - row[token]), others)
        chance *= row[token]
    _emit(law, draft, chance, target(draft))
    return law


def _residual(p: Row, q: Row, share: Fraction) -> list[Fraction]:
    return [max(share * one - other, NOTHING) for one, other in zip(p, q, strict=True)]


def _emit(law: Distribution, front: Outcome, chance: Fraction, weights: Sequence[Fraction]) -> None:
    """Add the chance that a front is accepted and the token after it is drawn in proportion to weights."""
    total = sum(weights, NOTHING)
    for token, weight in enumerate(weights):
        if chance and weight:
            law[*front, token] = law.get((*front, token), NOTHING) + chance * weight / total


def _capped(law: Distribution, num_tokens: int) -> Distribution:
    capped: Distribution = {}
    for outcome, chance in law.items():
        capped[outcome[:num_tokens]] = capped.get(outcome[:num_tokens], NOTHING) + chance
    return capped


@dataclass(frozen=True)
class JointLaw:
    """How far the law of two requests' outputs lies from the product of the target's laws.

    Parameters
    ----------
    distance : Fraction
        Total variation of the joint law.
    by_request : tuple of Fraction
        Total variation of each request's own law.
    dependence : Fraction
        The largest difference between a joint chance and the product of the two requests' own.
    num_verified, num_emitted : Fraction
        Drafts sent and tokens output, expected in one step of the batch.
    """

    distance: Fraction
    by_request: tuple[Fraction, ...]
    dependence: Fraction
    num_verified: Fraction
    num_emitted: Fraction

    @property
    def num_accepted_drafts(self) -> Fraction:
        """Drafts accepted, expected in one step of the batch."""
        return self.num_emitted - len(self.by_request)

    def __str__(self) -> str:
        each = ", ".join(f"request {place} alone {one}" for place, one in enumerate(self.by_request))
        return f"{self.distance} ({float(self.distance):.4f}) in total variation ({each}, dependence {self.dependence})"


def all_drafts(scenes: Sequence[ChainScene]) -> list[Drafts]:
    """Return every array of drafts that can be drawn."""
    return [*product(*([draft for draft, _ in scene.drafts()] for scene in scenes))]


def joint_law(scenes: Sequence[ChainScene], schedule: Schedule, form: Form) -> JointLaw:
    """Return the exact law of two requests' tokens up to the longest draft, missing ones drawn from the target.

    Parameters
    ----------
    scenes : sequence of ChainScene
        Two requests, each with rows of the target for every front up to the longest draft of either.
    schedule : mapping
        What is sent of each array of drafts.
    form : Form
        How drafts are accepted.
    """
    first, second = scenes
    horizon = max(scene.num_drafts for scene in scenes)

    @cache
    def emitted(request: int, draft: Outcome, length: int) -> tuple[Distribution, Fraction]:
        law = emitted_law(scenes[request], draft, length, form)
        num_tokens = sum((chance * len(outcome) for outcome, chance in law.items()), NOTHING)
        return extend(law, scenes[request].target.__getitem__, horizon), num_tokens

    law: dict[Drafts, Fraction] = {}
    num_verified = num_emitted = NOTHING
    for draft, chance in first.drafts():
        # NOTE: the second request's laws are added up before they are multiplied with the first one's.
        beside: dict[int, Distribution] = {}
        for other, share in second.drafts():
            lengths = schedule[draft, other]
            summed = beside.setdefault(lengths[0], {})
            for outcome, weight in emitted(1, other, lengths[1])[0].items():
                summed[outcome] = summed.get(outcome, NOTHING) + share * weight
            num_verified += chance * share * sum(lengths)
            num_emitted += chance * share * (emitted(0, draft, lengths[0])[1] + emitted(1, other, lengths[1])[1])
        for length, summed in beside.items():
            for outcome, weight in emitted(0, draft, length)[0].items():
                for other, share in summed.items():
                    law[outcome, other] = law.get((outcome, other), NOTHING) + chance * weight * share
    return _compared(scenes, law, num_verified, num_emitted, horizon)


def _compared(
    scenes: Sequence[ChainScene], law: Mapping[Drafts, Fraction], verified: Fraction, emitted: Fraction, horizon: int
) -> JointLaw:
    targets = [autoregressive(scene.target.__getitem__, horizon) for scene in scenes]
    own: list[Distribution] = [dict.fromkeys(target, NOTHING) for target in targets]
    for outcomes, chance in law.items():
        for request, outcome in enumerate(outcomes):
            own[request][outcome] += chance
    distance = dependence = NOTHING
    for one, other in product(*targets):
        chance = law.get((one, other), NOTHING)
        distance += abs(chance - targets[0][one] * targets[1][other])
        dependence = max(dependence, abs(chance - own[0][one] * own[1][other]))
    apart = tuple(total_variation(mine, target) for mine, target in zip(own, targets, strict=True))
    return JointLaw(distance / 2, apart, dependence, verified, emitted)
