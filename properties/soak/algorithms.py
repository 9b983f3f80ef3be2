"""Machines whose drafts are not EAGLE's: what a drawn machine becomes under another algorithm."""

from dataclasses import replace
from random import Random

from specsim.config import MOST_PACKED_NODES
from specsim.properties.soak.drafters import DRAFTERS, EAGLE
from specsim.properties.soak.setups import AT_REST, Setup
from specsim.simulation.models.pool_kinds import RECURRENT_KINDS, PoolKind

ONE_IN = 4
"""One of so many machines has another algorithm than EAGLE."""

OTHERS = tuple(name for name in DRAFTERS if name != EAGLE)

ON_EITHER_WORKER = ("MULTI_LAYER", "EAGLE3", "STANDALONE", "NGRAM", "DFLASH")
"""Algorithms that V2 runs as well; those that nothing overlaps run in turn there."""

OF_ANY_SIZE = ("EAGLE3", "STANDALONE", "FROZEN_KV_MTP")
"""Algorithms whose drafts have the sizes of EAGLE's, and may change them."""


def with_algorithm(setup: Setup) -> Setup:
    """Return a machine of another algorithm, or the same machine, as its seed decides; the widest trees are EAGLE's."""
    if setup.config.num_draft_tokens > MOST_PACKED_NODES:
        return setup
    random = Random(setup.shuffle_seed + (setup.model.seed << 16))
    return setup if random.randrange(ONE_IN) else of_algorithm(setup, random.choice(OTHERS), random)


def of_algorithm(setup: Setup, name: str, random: Random) -> Setup:
    """Return a machine like another one, under an algorithm; what that does not have is left out."""
    drafter = DRAFTERS[name]
    config, parameters, vocab_size = setup.config, None, drafter.vocab_size
    if drafter.sizes:
        config = random.choice(next(iter(drafter.sizes.values())))
    if drafter.parameters is not None:
        parameters = drafter.parameters(config, random)
        config = parameters.config
    model = setup.model
    if vocab_size != model.vocab_size:
        model = replace(model, vocab_size=vocab_size, hot_token_id=None)
    if drafter.model is not None:
        model = drafter.model(model, random)
    if name not in ("EAGLE3", "STANDALONE"):
        pools = (model.target_pool, model.draft_pool)
        target, draft = (_kept(pool, name) for pool in pools)
        model = replace(model, target_pool=target, draft_pool=draft)
    is_v1 = setup.is_v1 or name not in ON_EITHER_WORKER
    is_overlapped = setup.schedule.is_overlapped and drafter.algorithm.supports_spec_v2()
    others = tuple(one for one in setup.other_configs if one != AT_REST)
    return replace(
        setup,
        algorithm=name,
        parameters=parameters,
        config=config,
        model=model,
        is_v1=is_v1,
        schedule=replace(setup.schedule, is_overlapped=is_overlapped),
        candidates=setup.candidates if name == "EAGLE3" else (),
        rests_from=setup.rests_from if name == "EAGLE3" else 0,
        other_configs=others if name in OF_ANY_SIZE else (),
        has_constraints=setup.has_constraints and name in OF_ANY_SIZE,
        shared=tuple(token % vocab_size for token in setup.shared),
    )


def _kept(pool: PoolKind, name: str) -> PoolKind:
    """Return a kind of pool, or the plain one where entries have to move, or drafts cannot read states."""
    is_unreadable = name == "FROZEN_KV_MTP" and pool in RECURRENT_KINDS
    return PoolKind.MHA if pool is PoolKind.OTHER or is_unreadable else pool
