"""Machines whose drafts are not EAGLE's: what a drawn machine becomes under another algorithm."""

from dataclasses import replace
from random import Random
from typing import Any

from specsim.algorithms import DRAFTERS, Drafter
from specsim.properties.seeds import source_of
from specsim.properties.soak.drafters import EAGLE, Parameters, chains_of, draw_model, parameters_of, vocab_size_of
from specsim.properties.soak.drawing import draw_sizes
from specsim.properties.soak.setups import AT_REST, Setup
from specsim.simulation.models.pool_kinds import RECURRENT_KINDS, PoolKind

ONE_IN = 4
"""One of so many machines has another algorithm than EAGLE."""

OTHERS = tuple(name for name in DRAFTERS if name != EAGLE)


def with_algorithm(setup: Setup) -> Setup:
    """Return a machine of another algorithm, or the same machine, as its seed decides; the widest trees are EAGLE's."""
    if setup.has_big_drafts:
        return setup
    random = source_of(setup.room.shuffle_seed + (setup.model.seed << 16))
    return setup if random.randrange(ONE_IN) else of_algorithm(setup, random.choice(OTHERS), random)


def of_algorithm(setup: Setup, name: str, random: Random, brought: Drafter | None = None) -> Setup:
    """Return a machine like another one, under an algorithm; what that does not have is left out.

    ``brought`` is the record of a drafter that no algorithm of ours is.
    """
    drafter = brought or DRAFTERS[name]
    sizes, vocab_size = setup.drafting.sizes, vocab_size_of(drafter)
    chains, own = chains_of(drafter), parameters_of(drafter)
    if chains:
        sizes = random.choice(chains)
    if own is not None:
        sizes = own.draw(sizes, random)
    model = setup.model
    if vocab_size != model.vocab_size:
        model = replace(model, vocab_size=vocab_size, hot_token_id=None)
    model = draw_model(drafter, model, random)
    target, draft = (_kept(pool, drafter) for pool in (model.target_pool, model.draft_pool))
    others = setup.others if drafter.has_any_size else ()
    if own is not None:
        others = _draw_other_parameters(sizes, own, random)
    return setup.having(
        drafter=name,
        brought=brought,
        sizes=sizes,
        adapting=setup.drafting.adapting if drafter.adapts else None,
        model=replace(model, target_pool=target, draft_pool=draft),
        is_overlapped=setup.schedule.is_overlapped and drafter.has_v2,
        others=others,
        has_constraints=setup.texts.has_constraints and drafter.has_any_size,
        shared=tuple(token % vocab_size for token in setup.texts.shared),
    )


def _draw_other_parameters(parameters: Any, own: Parameters, random: Random) -> tuple[Any, ...]:
    """Draw the sizes for engines that share pools with one; a store may draft nothing at all, a block always does."""
    sizes = [*own.chains] or [draw_sizes(random), AT_REST]
    others = [own.draw(random.choice(sizes), random) for _ in range(random.choice((0, 1, 2, 2)))]
    return tuple(dict.fromkeys(other for other in others if other != parameters))


def _kept(pool: PoolKind, drafter: Drafter) -> PoolKind:
    """Return a kind of pool, or the plain one where entries have to move, or drafts cannot read states."""
    is_stuck = pool is PoolKind.OTHER and not drafter.has_any_pool
    is_unreadable = pool in RECURRENT_KINDS and not drafter.reads_states
    return PoolKind.MHA if is_stuck or is_unreadable else pool
