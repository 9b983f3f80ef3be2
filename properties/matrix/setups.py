"""The engines of a cell and what is asked of them: texts that end beside the ends of pages, and begin alike."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from specsim.algorithms import DRAFTERS, Drafter
from specsim.config import SpecConfig
from specsim.host.acceptance import Acceptance
from specsim.properties.matrix.factors import Cell
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.scenario import Arrival
from specsim.properties.runs.steps.laws_budgets import OfSurvivals
from specsim.properties.soak.asked import draw_arrival, with_rules
from specsim.properties.soak.drafters import chains_of, draw_model, parameters_of, vocab_size_of
from specsim.properties.soak.setups import Setup, setup_of
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import DRAFT_KINDS, PoolKind
from specsim.simulation.schedule import Schedule
from specsim.simulation.verification import FixedBudget, Verification, VerifyMode

SIZES = {
    1: (SpecConfig(1, 3, 4), SpecConfig(1, 2, 3)),
    4: (SpecConfig(4, 2, 8), SpecConfig(4, 3, 12)),
    16: (SpecConfig(16, 2, 24), SpecConfig(16, 2, 34)),
}
"""Drafts by their branching factor; every one can be accepted in part."""

BATCHES = (2, 3)
"""Requests that run at once; with fewer than there are, rows and slots change owners."""

LONGEST_OUTPUT = 20
SHORTEST_OUTPUT = 8
MOST_FOLLOWING = 3
"""Tokens after the text that a prompt continues."""


def sizes_of(cell: Cell, drafter: Drafter) -> tuple[SpecConfig, ...]:
    """Return the drafts that a drafter has at a branching factor; those that the rules take away are EAGLE's."""
    return (chains_of(drafter) if cell.topk == 1 else ()) or SIZES[cell.topk]


def draw_setup(
    cell: Cell,
    random: Random,
    sizes: Sequence[SpecConfig] = (),
    vocab_size: int | None = None,
    brought: Drafter | None = None,
) -> Setup:
    """Draw an engine of a cell; its drafts and its tokens are those that cells have unless others are given.

    ``brought`` is the record of the cell's drafter where that is none of ours.
    """
    drafter = brought or DRAFTERS[cell.algorithm]
    config = random.choice(sizes or sizes_of(cell, drafter))
    max_batch, page_size = random.choice(BATCHES), cell.page_size
    longest_prompt = _longest_first(page_size) + LONGEST_OUTPUT + MOST_FOLLOWING
    model = replace(_draw_model(PoolKind(cell.pool), random), vocab_size=vocab_size or vocab_size_of(drafter))
    model = draw_model(drafter, model, random)
    own = parameters_of(drafter)
    drafting: Any = config if own is None else own.draw(config, random)
    schedule = Schedule(
        is_overlapped=cell.overlap,
        prefill_chunk=max(page_size, 3) + random.choice((0, 1, 2)) if cell.chunking else None,
        stream_seed=random.randrange(1 << 16),
        has_prefix_cache=cell.prefix_cache,
        verification=_draw_verification(cell, random),
    )
    return setup_of(
        drafting,
        model,
        max_batch,
        schedule,
        is_v1=cell.worker == "v1",
        longest_prompt=longest_prompt,
        longest_output=LONGEST_OUTPUT,
        shuffle_seed=random.randrange(1 << 16),
        page_size=page_size,
        shared=tuple(random.randrange(model.vocab_size) for _ in range(longest_prompt)),
        compares_drafts=True,
        drafter=cell.algorithm,
        brought=brought,
        has_sampling=not cell.is_coin_by_token,
        acceptance=Acceptance(cell.acceptance),
    ).with_spare(max_batch - 1)


def draw_request(setup: Setup, random: Random) -> Arrival:
    """Draw a request whose prompt has all of a chunk or page after it, and begins like the others."""
    asked = draw_arrival(random, setup)
    page_size, chunk = setup.room.page_size, setup.schedule.prefill_chunk or 0
    around = max(random.choice((1, 2)) * page_size, chunk) + random.choice((1, 2, 3, 5))
    length = min(around, _longest_first(page_size))
    num_shared = random.choice((length - 1, min(page_size + 2, length - 1)))
    own = tuple(random.randrange(setup.model.vocab_size) for _ in range(length - num_shared))
    return _longer(asked, (*setup.texts.shared[:num_shared], *own), setup)


def draw_following(setup: Setup, text: Sequence[int], random: Random) -> Arrival:
    """Draw a request that goes on where a text ended, as the next turn of a conversation does.

    What somebody cached after that end is under the tokens that were rejected, or under no tokens at all.
    """
    asked = draw_arrival(random, setup)
    more = [
        random.choice((0, random.randrange(setup.model.vocab_size))) for _ in range(random.randint(1, MOST_FOLLOWING))
    ]
    return _longer(asked, (*text, *more), setup)


def _longer(asked: Arrival, prompt: tuple[int, ...], setup: Setup) -> Arrival:
    """Return a request with another prompt and a longer output."""
    max_new_tokens = max(asked.max_new_tokens, SHORTEST_OUTPUT)
    return with_rules(replace(asked, prompt=prompt, max_new_tokens=max_new_tokens, context_limit=None), setup)


def _draw_verification(cell: Cell, random: Random) -> Verification | None:
    """Draw a budget that cuts some chains of a batch, where the cell has one."""
    if not cell.is_scheduled:
        return None
    budget = random.choice((FixedBudget(2), OfSurvivals(2), FixedBudget(1), FixedBudget(3)))
    return Verification(VerifyMode(cell.verify_mode), budget)


def _longest_first(page_size: int) -> int:
    """Return the longest prompt that continues no output: it reaches into a third page."""
    return 2 * page_size + 5


def _draw_model(pool: PoolKind, random: Random) -> HashModel:
    """Draw a model whose drafts are right in part."""
    num_target_layers, num_draft_layers = random.choice(((2, 1), (1, 2)))
    return HashModel(
        vocab_size=VOCABULARY,
        seed=random.randrange(1 << 32),
        agreement=random.choice((0.6, 0.8, 0.4)),
        num_right=random.choice((None, None, None, 1)),
        num_target_layers=num_target_layers,
        num_draft_layers=num_draft_layers,
        target_pool=pool,
        draft_pool=pool if pool in DRAFT_KINDS else PoolKind.MHA,
    )
