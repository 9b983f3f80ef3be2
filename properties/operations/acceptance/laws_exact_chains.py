"""The exact law of the chain sampler: integrated over the draft's own draws and over all coins, it is the target's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from specsim.conformance.backend import Backend
from specsim.properties.distribution import (
    EVERYTHING,
    NOTHING,
    Coins,
    Distribution,
    Outcome,
    autoregressive,
    enumerate_cells,
    every_pair,
    extend,
    require_same_law,
    shares,
)
from specsim.properties.laws.checks import require, states
from specsim.properties.laws.sampling_cells import (
    CHAIN_SAMPLER,
    TOKEN_BY_TOKEN,
    ChainRule,
    chain_axes,
    play_chains,
    ratio_at,
    slack_of,
)
from specsim.properties.strategies.sampling_scenes import ChainScene, chain_batches, chain_scenes, drawn_chains

Play = Callable[[Sequence[int], Sequence[Outcome], Sequence[Coins]], list[list[Outcome]]]
"""Runs drafts of scenes, which are given by their places, each once a row of its coins."""


@dataclass(frozen=True)
class Played:
    """Scenes of one batch and what runs them.

    Parameters
    ----------
    scenes : sequence of ChainScene
        Chains over one vocabulary.
    play : callable
        Runs their drafts.
    slack, slack_at_one : Fraction
        How far from inner edges, and from 1, an implementation in float32 may be asked.
    rule : ChainRule
        How drafts are judged.
    """

    scenes: Sequence[ChainScene]
    play: Play
    slack: Fraction
    slack_at_one: Fraction = NOTHING
    rule: ChainRule = TOKEN_BY_TOKEN


def playing(backend: Backend, scenes: Sequence[ChainScene]) -> Played:
    """Return what runs scenes from their probabilities."""

    def play(places: Sequence[int], drafts: Sequence[Outcome], coins: Sequence[Coins]) -> list[list[Outcome]]:
        return play_chains(backend, [scenes[place] for place in places], drafts, coins)

    return Played(scenes, play, slack_of(scenes[0].vocab_size))


def laws_of_chains(played: Played) -> list[list[tuple[Outcome, Fraction, Distribution]]]:
    """Return, for every scene, each draft with its chance and the exact law of what it emits; one batched call."""
    drawn = [(place, draft, chance) for place, scene in enumerate(played.scenes) for draft, chance in scene.drafts()]
    axes = [chain_axes(played.scenes[place], draft, played.rule) for place, draft, _ in drawn]
    cells = [enumerate_cells(one, played.slack, played.slack_at_one) for one in axes]
    places, drafts, _ = zip(*drawn, strict=True)
    emitted = played.play(places, drafts, [one.coins for one in cells])
    found: list[list[tuple[Outcome, Fraction, Distribution]]] = [[] for _ in played.scenes]
    for (place, draft, chance), one, outcomes in zip(drawn, cells, emitted, strict=True):
        found[place].append((draft, chance, one.law_of(outcomes)))
    return found


def require_chain_law(played: Played) -> None:
    """Raise AssertionError unless every chain, continued to its longest output, has the target's law, term by term."""
    for scene, laws in zip(played.scenes, laws_of_chains(played), strict=True):
        horizon = scene.num_drafts + 1
        law: Distribution = {}
        for _, chance, emitted in laws:
            for sequence, weight in extend(emitted, scene.target.__getitem__, horizon).items():
                law[sequence] = law.get(sequence, NOTHING) + chance * weight
        require_same_law(f"law of {describe(scene)}", law, autoregressive(scene.target.__getitem__, horizon))


def describe(scene: ChainScene) -> str:
    """Return a scene in one line."""
    first = ",".join(map(str, scene.target[()]))
    drawn = f"a drawn chain of length {scene.num_drafts}"
    drafts = drawn if scene.certain is None else f"draft {list(scene.certain)} of {scene.num_drafts}"
    proposal = "" if () not in scene.proposal else f" proposed by ({','.join(map(str, scene.proposal[()]))})"
    return f"{drafts}, first row ({first}){proposal}"


def chain_emits_the_targets_law(backend: Backend, scene: ChainScene) -> None:
    """Over the draft's draws and all coins, accepted drafts and the token after them have the target's law."""
    require_chain_law(playing(backend, [scene]))


def every_chain_of_a_batch_emits_its_own_law(backend: Backend, scenes: list[ChainScene]) -> None:
    """In a ragged batch each chain emits the law of its own rows, padding of -1 or not."""
    require_chain_law(playing(backend, scenes))


def acceptance_is_the_overlap(backend: Backend, scene: ChainScene) -> None:
    """As many drafts are accepted as can be one by one: each with the chance that target and proposal share."""
    (laws,) = laws_of_chains(playing(backend, [scene]))
    for drafts in range(1, scene.num_drafts + 1):
        got = expected = NOTHING
        for draft, chance, law in laws:
            got += chance * sum((weight for sequence, weight in law.items() if len(sequence) > drafts), NOTHING)
            expected += chance * accepted_one_by_one(scene, draft, drafts)
        require(got == expected, f"chance of {drafts} accepted drafts, {describe(scene)}", got, expected)


def accepted_one_by_one(scene: ChainScene, draft: Outcome, count: int) -> Fraction:
    """Return the chance that so many drafts or more are accepted where they are judged one by one."""
    return prod((min(ratio_at(scene, draft, place), EVERYTHING) for place in range(count)), start=EVERYTHING)


def first_draft_is_accepted_by_the_overlap(backend: Backend, scene: ChainScene) -> None:
    """The first draft is accepted with chance sum min(p, q), and always when target and proposal are equal."""
    if not scene.num_drafts:
        return
    (laws,) = laws_of_chains(playing(backend, [scene]))
    got = sum(
        (chance * weight for _, chance, law in laws for sequence, weight in law.items() if len(sequence) > 1), NOTHING
    )
    pairs = zip(scene.target[()], scene.proposal[()], strict=True)
    require_same_law(f"acceptance of {describe(scene)}", {(1,): got}, {(1,): sum(map(min, pairs), NOTHING)})


def last_token_of_a_chain_is_independent_of_other_coins(backend: Backend, scene: ChainScene) -> None:
    """Whatever the coins of the drafts were, the final coin alone draws the last token, from max(p - q, 0) or p."""
    require_independent_last_tokens(playing(backend, [scene]))


def require_independent_last_tokens(played: Played) -> None:
    """Raise AssertionError unless the final coin alone draws the last token, whatever the other coins were."""
    for place, scene in enumerate(played.scenes):
        for draft, _ in scene.drafts():
            axes = chain_axes(scene, draft, played.rule)
            tried = enumerate_cells(axes[:-1]).middles
            finals = enumerate_cells(axes[-1:], played.slack, played.slack_at_one)
            (emitted,) = played.play([place], [draft], [every_pair(tried, finals.coins)])
            for number, others in enumerate(tried.tolist()):
                law = finals.law_of(emitted[number * len(finals.coins) : (number + 1) * len(finals.coins)])
                accepted = {len(sequence) - 1 for sequence in law}
                what = f"drafts {list(draft)} at coins {others}, {describe(scene)}"
                require(len(accepted) == 1, f"accepted {what}", sorted(accepted), "one number")
                (count,) = accepted
                rest = last_shares(scene, draft, count, played.rule)
                require_same_law(
                    f"last token of {what}", law, {(*draft[:count], token): share for token, share in rest}
                )


def last_shares(
    scene: ChainScene, draft: Outcome, count: int, rule: ChainRule = TOKEN_BY_TOKEN
) -> list[tuple[int, Fraction]]:
    """Return the possible last tokens after so many accepted drafts, each with its chance."""
    ends = shares(rule.rest(scene, draft, count))
    starts = [NOTHING, *ends[:-1]]
    return [(token, end - start) for token, (start, end) in enumerate(zip(starts, ends, strict=True)) if end > start]


PROPERTIES = states(
    "sampling_chain_law",
    (chain_emits_the_targets_law, chain_scenes, CHAIN_SAMPLER, "P02"),
    (every_chain_of_a_batch_emits_its_own_law, chain_batches, CHAIN_SAMPLER, "P02"),
    (acceptance_is_the_overlap, chain_scenes, CHAIN_SAMPLER, "P63"),
    (first_draft_is_accepted_by_the_overlap, drawn_chains, CHAIN_SAMPLER, "P63"),
    (last_token_of_a_chain_is_independent_of_other_coins, drawn_chains, CHAIN_SAMPLER, "P09"),
)
