"""Faults in the adaptive controller."""

import math
from collections.abc import Sequence
from dataclasses import replace

from specsim.host.adaptive import AdaptiveConfig, AdaptiveSlot, AdaptiveState
from specsim.properties.mutants.record import Function, Mutant, Named, answering, unchecked, with_arguments


def _warmup_ends_early(correct: Function, arguments: Named) -> AdaptiveState:
    config: AdaptiveConfig = arguments["config"]
    before: AdaptiveState = arguments["state"]
    after: AdaptiveState = correct(**arguments)
    if after.count != before.count and after.count == config.warmup and config.warmup > 0:
        after = correct(**{**arguments, "config": replace(config, warmup=0, interval=1)})
    return after


def _upward_first(
    state: AdaptiveState, num_accepted_drafts: Sequence[int], slot: AdaptiveSlot, config: AdaptiveConfig
) -> AdaptiveState:
    after, is_decision = _followed(state, num_accepted_drafts, config)
    if not is_decision:
        return after
    place, candidates = slot.candidates.index(state.num_steps), slot.candidates
    while place + 1 < len(candidates) and after.ema > candidates[place] - 0.5 + slot.up:
        place += 1
    while place > 0 and after.ema <= candidates[place - 1] - 0.5 + slot.down:
        place -= 1
    if config.ceiling > 0 and candidates[place] <= state.num_steps:
        place = _under(candidates, place, after.ema, config)
    return replace(after, num_steps=candidates[place])


def _ceiling_on_every_decision(correct: Function, arguments: Named) -> AdaptiveState:
    config: AdaptiveConfig = arguments["config"]
    after: AdaptiveState = correct(**arguments)
    if config.ceiling > 0 and after.num_steps > arguments["state"].num_steps:
        candidates = arguments["slot"].candidates
        place = _under(candidates, candidates.index(after.num_steps), after.ema, config)
        after = replace(after, num_steps=candidates[place])
    return after


def _empty_verifies_counted(correct: Function, arguments: Named) -> AdaptiveState:
    after: AdaptiveState = correct(**arguments)
    return after if arguments["num_accepted_drafts"] else replace(after, count=after.count + 1)


def _one_step_at_a_time(correct: Function, arguments: Named) -> AdaptiveState:
    before, after = arguments["state"].num_steps, correct(**arguments)
    nearer: AdaptiveState = replace(after, num_steps=before + max(-1, min(1, after.num_steps - before)))
    return nearer


def _followed(
    state: AdaptiveState, num_accepted_drafts: Sequence[int], config: AdaptiveConfig
) -> tuple[AdaptiveState, bool]:
    if not num_accepted_drafts:
        return state, False
    mean = sum(num_accepted_drafts) / len(num_accepted_drafts)
    ema, count = (1.0 - config.alpha) * state.ema + config.alpha * mean, state.count + 1
    beyond = count - config.warmup
    return replace(state, ema=ema, count=count), beyond > 0 and beyond % config.interval == 0


def _under(candidates: tuple[int, ...], place: int, ema: float, config: AdaptiveConfig) -> int:
    cap = max(1, math.ceil(ema * config.ceiling))
    while place > 0 and candidates[place] > cap:
        place -= 1
    return place


_ADAPT = "adapt_num_steps"

MUTANTS = (
    Mutant("OWN-144", _ADAPT, "Steps upward are tried before steps downward.", unchecked(_upward_first)),
    Mutant("OWN-145", _ADAPT, "The last verify of the warm-up decides.", answering(_warmup_ends_early)),
    Mutant(
        "OWN-146",
        _ADAPT,
        "The bonus token counts as an accepted draft.",
        with_arguments(num_accepted_drafts=lambda counts: [count + 1 for count in counts]),
    ),
    Mutant(
        "OWN-147",
        _ADAPT,
        "The latest mean has the weight of the past.",
        with_arguments(config=lambda config: replace(config, alpha=1.0 - config.alpha)),
    ),
    Mutant(
        "OWN-148", _ADAPT, "The ceiling also holds for a decision that rises.", answering(_ceiling_on_every_decision)
    ),
    Mutant("OWN-149", _ADAPT, "A verify without requests counts.", answering(_empty_verifies_counted)),
    Mutant("OWN-150", _ADAPT, "The number of steps changes by one, candidate or not.", answering(_one_step_at_a_time)),
    Mutant("OWN-151", "route_batch_size", "The batch is routed before it is padded.", with_arguments(graph_sizes=())),
)
