"""Machines that are drawn: most have small trees and a crowd of short requests, few one large dimension.

Everything is drawn from a source of numbers with the methods of ``random.Random``, Hypothesis's own included.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np

from specsim.config import MOST_PACKED_NODES, SpecConfig
from specsim.counts import count_candidates, count_nodes, path_width
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.seeds import source_of
from specsim.properties.soak.setups import AT_REST, Setup, adapting_among, setup_of
from specsim.simulation.models.description import Side
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import DRAFT_KINDS, RECURRENT_KINDS, PoolKind
from specsim.simulation.schedule import Schedule
from specsim.simulation.turns.priorities import DEPTH

CANDIDATES = ((1, 2, 3), (1, 3), (2, 4), (1, 2, 4), (0, 1, 3), (0, 2))
"""Numbers of steps that chains change among; without a step nothing is proposed."""

ONE_PADDED_IN, ONE_RANKED_IN = 3, 3
"""Of so many machines whose sizes never change one is padded, and of these one runs beside another rank."""

ONE_LATE_IN = 4
"""Of so many schedules, in one nothing that is queued runs before the host waits for it."""

WINDOWS = (4, 2, 8, 1, 3)
"""Positions that a layer with a sliding window sees, where there is one."""

DrawSetup = Callable[[Random], Setup]
"""Draws a machine."""


def draw_setup(random: Random) -> Setup:
    """Draw a machine: most have small trees and a crowd of short requests, few one large dimension."""
    return with_pools(_draw_plain_setup(random))


def with_padding(setup: Setup) -> Setup:
    """Return a machine that pads its batches, perhaps beside another rank, or the same machine, as its seed decides.

    Padding knows one size of drafts: where sizes change, nothing is padded.
    """
    random = source_of(f"padding of {setup.room.shuffle_seed} and {setup.model.seed}")
    if setup.candidates or setup.others or setup.has_big_drafts or random.randrange(ONE_PADDED_IN):
        return setup
    return setup.having(is_padded=True, num_ranks=1 if random.randrange(ONE_RANKED_IN) else 2)


def draw_padded(random: Random) -> Setup:
    """Draw a machine whose batches are padded."""
    return draw_setup(random).having(is_padded=True, adapting=None, others=())


def draw_ranked(random: Random) -> Setup:
    """Draw a machine beside another rank."""
    return draw_padded(random).having(num_ranks=2)


def draw_recurrent(random: Random) -> Setup:
    """Draw a machine whose target has recurrent states."""
    setup = draw_setup(random)
    return setup.having(target_pool=random.choice(sorted(RECURRENT_KINDS)), has_prefix_cache=False)


def with_depth(schedule: Schedule) -> Schedule:
    """Return a schedule whose events are ordered by priorities; in few, as the seed decides, all comes late instead."""
    return schedule if schedule.stream_seed % ONE_LATE_IN == 1 else replace(schedule, depth=DEPTH)


def with_pools(setup: Setup) -> Setup:
    """Return a machine whose model stores its KV in pools of other kinds, as its seed decides.

    Recurrent states are not kept by position, so that a machine with a prefix cache has none.
    """
    random = source_of(setup.model.seed)
    kinds = {Side.TARGET: PoolKind.MHA, Side.DRAFT: PoolKind.MHA}
    for side in Side:
        known = [
            kind
            for kind in (PoolKind if side is Side.TARGET else DRAFT_KINDS)
            if not (kind is PoolKind.OTHER and side in setup.moving_sides)
            and not (kind in RECURRENT_KINDS and setup.schedule.has_prefix_cache)
        ]
        if random.randrange(2 if side is Side.TARGET else 4) == 0:
            eventful = [kind for kind in known if kind in RECURRENT_KINDS | {PoolKind.SWA}]
            kinds[side] = random.choice([*known, *eventful])
    pools = {"target_pool": kinds[Side.TARGET], "draft_pool": kinds[Side.DRAFT]}
    return setup.having(**pools, window=random.choice(WINDOWS))


def _draw_plain_setup(random: Random) -> Setup:
    family = random.randrange(24)
    if family == 0:
        return _draw_wide_trees(random)
    if family < 4:
        return draw_brief_texts(random)
    is_v1 = random.randrange(3) == 0
    candidates = random.choice(CANDIDATES) if random.randrange(4) == 0 else ()
    page_size = random.choice((1, 1, 2, 4))
    config = SpecConfig(1, candidates[-1], path_width(candidates[-1])) if candidates else draw_sizes(random)
    others = () if candidates else _draw_others(random, config)
    max_batch = random.choice((5, 6, 8, 5, 6, 4, 3, 2, 1))
    longest_prompt, longest_output = random.choice((8, 8, 17)), random.choice((24, 16, 32))
    num_beside = random.choice((max_batch - 1, max_batch - 1, max_batch - 1, max_batch // 2, 0))
    model, schedule = _draw_model(random), _draw_schedule(random, is_v1, page_size)
    rests_from = random.choice((0, 2, 4)) if 0 in candidates else 0
    num_spare_slots = random.randrange(9)
    return setup_of(
        config,
        model,
        max_batch,
        schedule,
        is_v1=is_v1,
        others=others,
        adapting=adapting_among(candidates, rests_from) if candidates else None,
        longest_prompt=longest_prompt,
        longest_output=longest_output,
        shuffle_seed=random.randrange(1 << 16),
        has_sampling=random.randrange(5) == 0,
        has_constraints=random.randrange(5) == 0,
        page_size=page_size,
        shared=_draw_shared(random, longest_prompt),
    ).with_spare(num_beside, num_spare_slots)


def draw_sizes(random: Random) -> SpecConfig:
    """Draw the sizes of small drafts."""
    topk, num_steps = random.choice((1, 2, 2, 3, 4)), random.choice((2, 1, 3, 2))
    if topk == 1:
        return SpecConfig(1, num_steps, path_width(num_steps))
    most = min(count_nodes(count_candidates(topk, num_steps)), 10)
    return SpecConfig(topk, num_steps, random.randint(path_width(num_steps), most))


def _draw_others(random: Random, config: SpecConfig) -> tuple[SpecConfig, ...]:
    """Draw the sizes of engines that share pools with one: most machines have none."""
    others = [
        AT_REST if random.randrange(4) == 0 else draw_sizes(random) for _ in range(random.choice((0, 0, 0, 1, 2)))
    ]
    return tuple(dict.fromkeys(other for other in others if other != config))


def _draw_wide_trees(random: Random) -> Setup:
    """Draw trees whose packed mask rows take more than one word, and few requests, as each iteration is long."""
    config = SpecConfig(random.choice((6, 8)), random.choice((3, 4)), MOST_PACKED_NODES + random.choice((1, 2, 8)))
    model, schedule = _draw_model(random), _draw_schedule(random, is_v1=False, page_size=1)
    setup = setup_of(config, model, 2, schedule, shuffle_seed=random.randrange(1 << 16), num_actions=40)
    return setup.with_spare(1)


def draw_brief_texts(random: Random) -> Setup:
    """Draw few rows that change owners all the time while what their last owners launched is queued."""
    page_size = random.choice((1, 1, 2, 4))
    config, max_batch, longest_prompt, longest_output = draw_sizes(random), random.choice((1, 2, 3)), 17, 2
    model = _draw_model(random)
    schedule = Schedule(
        is_overlapped=True, promised=Fraction(0), stream_seed=random.randrange(1 << 16), has_prefix_cache=True
    )
    return setup_of(
        config,
        model,
        max_batch,
        with_depth(schedule),
        longest_prompt=longest_prompt,
        longest_output=longest_output,
        shuffle_seed=random.randrange(1 << 16),
        num_actions=60,
        page_size=page_size,
        shared=_draw_shared(random, longest_prompt),
        is_brief=True,
    ).with_spare(max_batch)


def _draw_shared(random: Random, length: int) -> tuple[int, ...]:
    return tuple(random.randrange(VOCABULARY) for _ in range(length))


def _draw_model(random: Random) -> HashModel:
    seed = random.randrange(1 << 32)
    hot = np.random.default_rng(seed).permutation(VOCABULARY)[: VOCABULARY - 4] if random.randrange(4) == 0 else None
    num_right = random.choice((None, None, None, 0, 1, 2, 3))
    layers = random.choice(((2, 1), (1, 2)))
    return HashModel(VOCABULARY, seed, random.choice((0.6, 0.9, 1.0, 0.3)), num_right, hot, *layers)


def _draw_schedule(random: Random, is_v1: bool, page_size: int) -> Schedule:
    chunk = random.choice((None, None, 5, 8, 3))
    schedule = Schedule(
        is_overlapped=random.randrange(3) > 0 and not is_v1,
        prefill_chunk=None if chunk is None else max(chunk, page_size),
        promised=random.choice((Fraction(1), Fraction(0), Fraction(0), Fraction(1, 2))),
        stream_seed=random.randrange(1 << 16),
        has_prefix_cache=random.randrange(2) == 0,
    )
    return with_depth(schedule)
