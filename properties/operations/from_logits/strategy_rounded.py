"""Small scenes where rounding matters: rows of any float32 numbers, as the rational numbers that they are."""

from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import strategies as st

from specsim.host.sampling import COIN_STEP
from specsim.properties.composite import composite
from specsim.properties.distribution import Outcome, Row, exact
from specsim.properties.operations.probabilities.strategy import MOST_ROWS
from specsim.properties.strategies.arrays import Array, Bulk, bulk
from specsim.properties.strategies.limits import limits
from specsim.properties.strategies.logit_scenes import (
    ChainLogitBatch,
    Logits,
    LogitScene,
    chain_logit_batches,
    logit_batches,
)
from specsim.properties.strategies.sampling_scenes import ChainScene, TreeScene, all_shapes, draft_tokens

UNITS = 4
"""By how many units in the last place the rows of target and draft differ at most."""

PAIRS = ("close", "near", "subnormal", "one-hot", "short")
"""How the rows of target and draft are made: they agree to a few units of float32, or of bfloat16; the target's mass
but for one token is subnormal; either row is sure of a token; both add up to a little less than 1."""

ROWS = ("near one", "subnormal", "one-hot", "short")
"""How a target's row of a tree is made; near one, all but a few units of its mass are on one token."""

CHAINS = 4
"""Chains of one example."""

NUMS_DRAFTS = (0, 1, 1, 1, 1, 1, 2, 2)
"""One chain in eight has no drafts, one in four has two."""

SUBNORMAL = (2**12, 2**20)
"""Subnormal numbers as multiples of the least one; they have 12 digits or more."""

LEAST_SUBNORMAL = 2.0**-149
BFLOAT16_UNIT = np.float32(2.0**-8)
SHORTER = np.float32(1 - 2.0**-18)
FAR_LOGIT = 10_000
FAR_LOGIT_OF_BFLOAT16 = 9_984
"""The multiple of 64 next to it, which bfloat16 holds."""

SHIFTS = ("up", "down", "forbidden far below")
MOSTLY_WHOLE = ("up", "up", "up", "down", "down", "forbidden far below")
"""Shifts of which most leave tokens of -inf: one that neither side can draw is met more often."""


def broad_row(source: Bulk, vocab_size: int) -> Array:
    """Return a float32 row that a softmax could give; every other one has a token without mass at either end."""
    weights = _weights(source, vocab_size)
    empty = source.integer(0, 3)
    if empty < 2:
        weights[-empty] = 0
    return np.asarray(weights / weights.sum(), dtype=np.float32)


def short_row(source: Bulk, vocab_size: int) -> Array:
    """Return a float32 row that adds up to a little less than 1, and leaves its last token none of it."""
    weights = _weights(source, vocab_size)
    weights[-1] = 0
    return np.asarray(weights / weights.sum() * SHORTER, dtype=np.float32)


def _weights(source: Bulk, vocab_size: int) -> Array:
    return np.asarray(np.exp(source.integers(vocab_size, -(2**20), 2**20) / 2.0**19))


def heavy_row(source: Bulk, vocab_size: int, token: int, others: Array) -> Array:
    """Return a row of which all but a little is on one token; a third token or more leave one without any mass."""
    row = np.zeros(vocab_size, dtype=np.float32)
    tokens = [one for one in source.order(vocab_size).tolist() if one != token]
    row[tokens] = others[: len(tokens)]
    if len(tokens) > 1:
        row[tokens[-1]] = 0
    row[token] = 1 - source.integer(1, 2) * np.float32(COIN_STEP)
    return row


def subnormals(source: Bulk, count: int) -> Array:
    """Return subnormal numbers."""
    return (source.integers(count, *SUBNORMAL) * LEAST_SUBNORMAL).astype(np.float32)


def pair(source: Bulk, vocab_size: int, kind: str) -> tuple[Array, Array]:
    """Return the target's row and the draft's, float32 [vocab]."""
    if kind == "one-hot":
        target = np.eye(vocab_size, dtype=np.float32)[source.integer(0, vocab_size - 1)]
        draft = broad_row(source, vocab_size) if source.integer(0, 1) else target.copy()
        return target, draft
    if kind == "subnormal":
        token = source.integer(0, vocab_size - 1)
        target = heavy_row(source, vocab_size, token, subnormals(source, vocab_size))
        return target, np.eye(vocab_size, dtype=np.float32)[token]
    target = broad_row(source, vocab_size)
    if kind == "short":
        return short_row(source, vocab_size), short_row(source, vocab_size)
    moves = source.integers(vocab_size, -UNITS, UNITS)
    if kind == "near":
        return target, np.minimum(target * (1 + moves * BFLOAT16_UNIT), 1).astype(np.float32)
    moved = (target.view(np.int32) + np.where(target > 0, moves, 0).astype(np.int32)).view(np.float32)
    return target, np.minimum(moved, np.float32(1))


def last_row(source: Bulk, vocab_size: int, kind: str) -> Array:
    """Return the target's row after all drafts; where subnormal mass is wanted there is no other, if that is taken."""
    if kind == "subnormal" and not limits().is_normalised:
        row = subnormals(source, vocab_size)
        row[source.integer(0, vocab_size - 1)] = 0
        return row
    return pair(source, vocab_size, kind)[0]


def as_row(values: Array) -> Row:
    """Return a row as rational numbers."""
    return exact(values.tolist())


@composite
def rounded_chains(draw: st.DrawFn) -> list[ChainScene]:
    """Draw four chains, all rows of each of a kind of its own."""
    return [draw(rounded_chain(PAIRS[kind])) for kind in draw(bulk()).order(len(PAIRS))[:CHAINS]]


@composite
def rounded_chain(draw: st.DrawFn, kind: str) -> ChainScene:
    """Draw a chain of no to two drafts with rows of a kind; one in six has drafts that were not drawn."""
    source = draw(bulk())
    # NOTE: from the seed, because examples that resemble each other would have the same number of drafts too often.
    num_drafts = NUMS_DRAFTS[source.integer(0, len(NUMS_DRAFTS) - 1)]
    vocab_size = 2 if num_drafts == 2 else draw(st.sampled_from((2, 3, 4, 4)))
    prefixes = [prefix for length in range(num_drafts) for prefix in product(range(vocab_size), repeat=length)]
    rows = {prefix: pair(source, vocab_size, kind) for prefix in prefixes}
    target = {prefix: as_row(wanted) for prefix, (wanted, _) in rows.items()}
    for prefix in product(range(vocab_size), repeat=num_drafts):
        target[prefix] = as_row(last_row(source, vocab_size, kind))
    scene = ChainScene(num_drafts, target, {prefix: as_row(offered) for prefix, (_, offered) in rows.items()})
    if source.integer(0, 5) == 5:
        return replace(scene, proposal={}, certain=tuple(source.integer(0, vocab_size - 1) for _ in range(num_drafts)))
    return scene


@composite
def rounded_trees(draw: st.DrawFn) -> TreeScene:
    """Draw a tree of up to three nodes whose rows are all of one kind; a heavy token is often a child's."""
    kind, source = draw(st.sampled_from(ROWS)), draw(bulk())
    topology = draw(st.sampled_from(list(all_shapes(3))))
    vocab_size = draw(st.sampled_from((2, 3, 4)))
    tokens = draft_tokens(source, topology, vocab_size)
    rows = []
    for below in topology.children:
        token = tokens[below[0]] if below and source.integer(0, 3) else source.integer(0, vocab_size - 1)
        rows.append(as_row(_tree_row(source, vocab_size, kind, token, bool(below))))
    return TreeScene(topology, tokens, tuple(rows), num_steps=max(topology.depths))


def _tree_row(source: Bulk, vocab_size: int, kind: str, token: int, is_inner: bool) -> Array:
    if kind == "near one":
        units = source.integers(vocab_size, 1, UNITS) * np.float32(COIN_STEP)
        return heavy_row(source, vocab_size, token, units.astype(np.float32))
    if kind == "subnormal" and is_inner:
        return heavy_row(source, vocab_size, token, subnormals(source, vocab_size))
    return last_row(source, vocab_size, kind)


@composite
def subnormal_rows(draw: st.DrawFn) -> Array:
    """Draw rows of probabilities whose mass is subnormal but for one token, or all of it, float32 [row, vocab]."""
    source, vocab_size = draw(bulk()), draw(st.sampled_from((2, 3, 4, 9)))
    rows = [
        last_row(source, vocab_size, "subnormal")
        if source.integer(0, 1)
        else heavy_row(source, vocab_size, source.integer(0, vocab_size - 1), subnormals(source, vocab_size))
        for _ in range(source.integer(1, MOST_ROWS))
    ]
    return np.stack(rows)


def shifted(logits: Logits, shift: str, is_half: bool = False) -> Logits:
    """Return logits that say the same 10,000 further up or down, or with -10,000 in place of -inf.

    In bfloat16 a row of such numbers has no room for small differences, so that only -inf is replaced.
    """
    if shift == "forbidden far below" or is_half:
        far = -FAR_LOGIT_OF_BFLOAT16 if is_half else -FAR_LOGIT
        return tuple(far if logit is None else logit for logit in logits)
    distance = FAR_LOGIT if shift == "up" else -FAR_LOGIT
    return tuple(None if logit is None else logit + distance for logit in logits)


@composite
def far_logit_batches(draw: st.DrawFn) -> tuple[list[LogitScene], str]:
    """Draw requests from logits far from 0, and the element type of the batch."""
    scenes, is_half = draw(logit_batches(uneven_one_in=2)), draw(st.sampled_from((False, False, True)))
    shifts = [draw(st.sampled_from(SHIFTS)) for _ in scenes]
    far = [
        replace(scene, logits=tuple(shifted(row, shift, is_half) for row in scene.logits))
        for scene, shift in zip(scenes, shifts, strict=True)
    ]
    return far, "bfloat16" if is_half else "float32"


def far_chain_batches() -> st.SearchStrategy[list[ChainLogitBatch]]:
    """Return a strategy of two batches of chains whose logits are far from 0."""
    return st.lists(_far_chain_batch(), min_size=2, max_size=2)


@composite
def _far_chain_batch(draw: st.DrawFn) -> ChainLogitBatch:
    """Draw chains of drawn drafts; the logits of either side have a shift of their own, most often of the whole row."""
    batch, source = draw(chain_logit_batches(is_certain=False)), draw(bulk())

    def far(rows: dict[Outcome, Logits], is_half: bool) -> dict[Outcome, Logits]:
        shift = MOSTLY_WHOLE[source.integer(0, len(MOSTLY_WHOLE) - 1)]
        return {prefix: shifted(row, shift, is_half) for prefix, row in rows.items()}

    half = batch.is_half
    scenes = [
        replace(one, target_logits=far(one.target_logits, half[0]), draft_logits=far(one.draft_logits, half[1]))
        for one in batch.scenes
    ]
    return replace(batch, scenes=tuple(scenes))
