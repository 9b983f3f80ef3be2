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
    random = source_of(setup.shuffle_seed + (setup.model.seed << 16))
    return setup if random.randrange(ONE_IN) else of_algorithm(setup, random.choice(OTHERS), random)


def of_algorithm(setup: Setup, name: str, random: Random, brought: Drafter | None = None) -> Setup:
    """Return a machine like another one, under an algorithm; what that does not have is left out.

    ``brought`` is the record of a drafter that no algorithm of ours is.
    """
    drafter = brought or DRAFTERS[name]
    config, parameters, vocab_size = setup.config, None, vocab_size_of(drafter)
    chains, own = chains_of(drafter), parameters_of(drafter)
    if chains:
        config = random.choice(chains)
    if own is not None:
        parameters = own.draw(config, random)
        config = parameters.config
    model = setup.model
    if vocab_size != model.vocab_size:
        model = replace(model, vocab_size=vocab_size, hot_token_id=None)
    model = draw_model(drafter, model, random)
    target, draft = (_kept(pool, drafter) for pool in (model.target_pool, model.draft_pool))
    model = replace(model, target_pool=target, draft_pool=draft)
    is_overlapped = setup.schedule.is_overlapped and drafter.has_v2
    others = setup.other_draftings if drafter.has_any_size else ()
    if own is not None:
        others = _draw_other_parameters(parameters, own, random)
    return replace(
        setup,
        algorithm=name,
        brought=brought,
        parameters=parameters,
        config=config,
        model=model,
        schedule=replace(setup.schedule, is_overlapped=is_overlapped),
        candidates=setup.candidates if drafter.adapts else (),
        rests_from=setup.rests_from if drafter.adapts else 0,
        other_draftings=others,
        has_constraints=setup.has_constraints and drafter.has_any_size,
        shared=tuple(token % vocab_size for token in setup.shared),
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
