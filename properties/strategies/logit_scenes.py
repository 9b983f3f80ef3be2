"""Small scenes for the exact law from logits: whole-number logits whose filtered distributions are dyadic.

At temperature ``1/ln 2`` a logit of -k weighs ``2**-k``. Rows are kept only if their exact distribution under the
request's filters has a power of two as denominator, and if no filter decides closely.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product, zip_longest

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.host.sampling import ALL_TOKENS
from specsim.properties.composite import composite
from specsim.properties.distribution import EVERYTHING, NOTHING, Outcome, Row
from specsim.properties.strategies.arrays import Bulk, bulk, mostly
from specsim.properties.strategies.limits import limits
from specsim.properties.strategies.sampling_scenes import (
    VOCABULARIES,
    ChainScene,
    TreeScene,
    all_shapes,
    draft_tokens,
    longest_chain,
)
from specsim.topology import Topology

HALVING_TEMPERATURE = float(np.float32(1 / np.log(2)))
"""The temperature at which one unit of a logit is a factor of 2."""

FAR_OF = 8
"""Rows of which that is taken that is farthest from another row."""

FORBIDDEN = None
LOGITS = (0, -1, -2, -3, FORBIDDEN)
CLOSE = Fraction(1, 100)
UNLIMITED = ALL_TOKENS

Logits = tuple[int | None, ...]


@dataclass(frozen=True)
class Filters:
    """Sampling parameters of one request; shares are exact."""

    is_greedy: bool = False
    top_k: int = UNLIMITED
    top_p: Fraction = EVERYTHING
    min_p: Fraction = NOTHING


ALL_FILTERS = (
    Filters(),
    Filters(is_greedy=True),
    *(Filters(top_k=count) for count in (1, 2, 3)),
    *(Filters(top_p=Fraction(tenths, 10)) for tenths in (3, 6, 9)),
    *(Filters(min_p=Fraction(tenths, 10)) for tenths in (2, 7)),
    Filters(top_k=2, top_p=Fraction(7, 10)),
    Filters(top_k=3, min_p=Fraction(3, 10)),
    Filters(top_p=Fraction(8, 10), min_p=Fraction(4, 10)),
)


@dataclass(frozen=True)
class LogitScene:
    """One request from logits: its tree with exact rows, the logits of each node, and its filters."""

    tree: TreeScene
    logits: tuple[Logits, ...]
    filters: Filters


def exact_row(logits: Logits, filters: Filters) -> Row | None:
    """Return the exact distribution of whole-number logits, or None where a filter decides closely."""
    if filters.is_greedy:
        best = max(
            range(len(logits)), key=lambda token: (-UNLIMITED if (one := logits[token]) is None else one, -token)
        )
        return tuple(EVERYTHING if token == best else NOTHING for token in range(len(logits)))
    weights = [NOTHING if logit is None else Fraction(2) ** logit for logit in logits]
    kept = sorted(weights, reverse=True)[: filters.top_k]
    shares = normalised([weight if weight >= kept[-1] else NOTHING for weight in weights])
    by_p = keep_mass(shares, filters.top_p)
    if by_p is None:
        return None
    least = filters.min_p * max(by_p)
    if least and any(abs(share - least) < CLOSE * least for share in by_p):
        return None
    return tuple(normalised([share if share >= least else NOTHING for share in by_p]))


def depends_on_ties(logits: Logits, filters: Filters) -> bool:
    """Return whether a filter, or the largest logit, cuts through tokens that are equally likely."""
    weights = [NOTHING if logit is None else Fraction(2) ** logit for logit in logits]
    if filters.is_greedy:
        return weights.count(max(weights)) > 1
    least = sorted(weights, reverse=True)[: filters.top_k][-1]
    shares = normalised([weight if weight >= least else NOTHING for weight in weights])
    kept = keep_mass(shares, filters.top_p) or shares
    last = min(share for share, is_kept in zip(shares, kept, strict=True) if is_kept)
    mass_above = sum((share for share in shares if share > last), NOTHING)
    needed = max(filters.top_p - mass_above, NOTHING) / last
    is_cut_by_p = filters.top_p < 1 and needed <= shares.count(last) - 1 + CLOSE
    return is_cut_by_p or (least > 0 and sum(weight >= least for weight in weights) > filters.top_k)


def keep_mass(shares: list[Fraction], top_p: Fraction) -> list[Fraction] | None:
    """Return the distribution of the largest shares whose mass reaches ``top_p``, or None if it is reached closely."""
    if top_p == 1:
        return shares
    mass = NOTHING
    for threshold in sorted(set(shares), reverse=True):
        mass += threshold * shares.count(threshold)
        if abs(mass - top_p) < CLOSE:
            return None
        if mass >= top_p:
            break
    return normalised([share if share >= threshold else NOTHING for share in shares])


def normalised(weights: list[Fraction]) -> list[Fraction]:
    """Return shares of the total."""
    total = sum(weights, NOTHING)
    return [weight / total for weight in weights]


def is_dyadic(row: Row) -> bool:
    """Return whether every denominator is a power of two."""
    return all(share.denominator & (share.denominator - 1) == 0 for share in row)


@cache
def catalogue(vocab_size: int, filters: Filters, *, ties_are_free: bool = False) -> tuple[tuple[Logits, Row], ...]:
    """Return every row of small logits whose exact distribution is dyadic, with that distribution.

    Where any of several equal tokens may be kept, no row depends on which of them are.
    """
    found = []
    for logits in product(LOGITS, repeat=vocab_size):
        row = None if logits.count(FORBIDDEN) == vocab_size else exact_row(logits, filters)
        if row is not None and is_dyadic(row) and not (ties_are_free and depends_on_ties(logits, filters)):
            found.append((logits, row))
    return tuple(found)


def uneven(rows: tuple[tuple[Logits, Row], ...]) -> tuple[tuple[Logits, Row], ...]:
    """Return the rows in which two possible tokens have different probabilities; all if there are none."""
    return tuple((logits, row) for logits, row in rows if len(set(row) - {NOTHING}) > 1) or rows


def make_scene(
    source: Bulk, topology: Topology, vocab_size: int, filters: Filters, num_steps: int, *, is_uneven: bool = False
) -> LogitScene:
    """Return a scene on a given shape."""
    rows = catalogue(vocab_size, filters, ties_are_free=limits().ties_are_free)
    rows = uneven(rows) if is_uneven else rows
    chosen = [rows[source.integer(0, len(rows) - 1)] for _ in range(len(topology))]
    tree = TreeScene(topology, draft_tokens(source, topology, vocab_size), tuple(row for _, row in chosen), num_steps)
    return LogitScene(tree, tuple(logits for logits, _ in chosen), filters)


@composite
def logit_batches(draw: DrawFn, uneven_one_in: int = 4, among: Sequence[Filters] = ALL_FILTERS) -> list[LogitScene]:
    """Draw one to three requests of one size, each with filters of its own, greedy ones among them.

    One request in so many has no row in which all possible tokens are equal, as far as its filters allow.
    """
    num_nodes, vocab_size = draw(st.integers(1, 4)), draw(st.sampled_from(VOCABULARIES))
    shapes = [shape for shape in all_shapes(num_nodes) if len(shape) == num_nodes]
    num_steps = draw(st.integers(max(num_nodes - 2, 0), num_nodes - 1))
    count = draw(st.integers(1, 3))
    unevenly = mostly(st.just(False), st.just(True), uneven_one_in)
    one = st.tuples(bulk(), st.sampled_from(shapes), st.sampled_from(among), unevenly)
    chosen = [draw(one) for _ in range(count)]
    return [
        make_scene(source, shape, vocab_size, filters, num_steps, is_uneven=is_uneven)
        for source, shape, filters, is_uneven in chosen
    ]


def unfiltered_batches() -> SearchStrategy[list[LogitScene]]:
    """Return a strategy of requests by temperature alone, some of them greedy."""
    return logit_batches(uneven_one_in=2, among=(Filters(), Filters(), Filters(is_greedy=True)))


def uneven_batches() -> SearchStrategy[list[LogitScene]]:
    """Return a strategy of requests of which every other one has rows of different probabilities."""
    return logit_batches(uneven_one_in=2)


@composite
def mixed_batches(draw: DrawFn) -> list[LogitScene]:
    """Draw a batch in which a greedy request stands beside sampled ones."""
    scenes = draw(logit_batches())
    tree = scenes[0].tree
    greedy = make_scene(draw(bulk()), tree.topology, tree.vocab_size, Filters(is_greedy=True), tree.num_steps)
    return [*scenes, greedy]


@dataclass(frozen=True)
class ChainLogitScene:
    """One chain from logits, whatever it may draft: its exact rows, and the logits of both sides by the tokens before.

    ``draft_scale`` is the draft's temperature as a multiple of the target's, and its logits are as much larger.
    """

    chain: ChainScene
    target_logits: dict[Outcome, Logits]
    draft_logits: dict[Outcome, Logits]
    filters: Filters
    draft_scale: int


@dataclass(frozen=True)
class ChainLogitBatch:
    """Chains of one vocabulary, and how many tokens the draft's rows have; whether each side is in bfloat16.

    Without drawn drafts the draft has no rows at all.
    """

    scenes: tuple[ChainLogitScene, ...]
    draft_vocab: int
    is_half: tuple[bool, bool]
    is_certain: bool


def make_logit_chain(
    source: Bulk,
    num_drafts: int,
    sizes: tuple[int, int],
    filters: Filters,
    *,
    is_certain: bool,
    num_padding: int,
    is_far: bool = False,
) -> ChainLogitScene:
    """Return a chain whose every row is drawn, for every prefix; ``sizes`` are the vocabularies of target and draft.

    Rows of the draft may be far from the target's, so that what is left of these and of half of them differs.
    """
    vocab_size, draft_vocab = sizes
    prefixes = [prefix for length in range(num_drafts + 1) for prefix in product(range(vocab_size), repeat=length)]
    target = {prefix: pick_logits(source, vocab_size, filters) for prefix in prefixes}
    common, scale = min(vocab_size, draft_vocab), source.integer(1, 2)
    shorter = [] if is_certain else [prefix for prefix in prefixes if len(prefix) < num_drafts]
    draft = {
        prefix: pick_far_logits(source, common, target[prefix][1]) if is_far else pick_logits(source, common, Filters())
        for prefix in shorter
    }
    chain = ChainScene(
        num_drafts,
        {prefix: row for prefix, (_, row) in target.items()},
        {prefix: (*row, *[NOTHING] * (vocab_size - common)) for prefix, (_, row) in draft.items()},
        tuple(source.integer(0, vocab_size - 1) for _ in range(num_drafts)) if is_certain else None,
        num_padding,
    )
    return ChainLogitScene(
        chain,
        {prefix: logits for prefix, (logits, _) in target.items()},
        {
            prefix: tuple(None if logit is None else logit * scale for logit in logits)
            + (FORBIDDEN,) * (draft_vocab - common)
            for prefix, (logits, _) in draft.items()
        },
        filters,
        scale,
    )


def pick_logits(source: Bulk, vocab_size: int, filters: Filters) -> tuple[Logits, Row]:
    """Return a row of small logits with its exact distribution; every other one is uneven where there is such a row."""
    rows = catalogue(vocab_size, filters, ties_are_free=limits().ties_are_free)
    rows = uneven(rows) if source.integer(0, 1) else rows
    return rows[source.integer(0, len(rows) - 1)]


def pick_far_logits(source: Bulk, vocab_size: int, row: Row) -> tuple[Logits, Row]:
    """Return of some rows the one that leaves the least alike of another and of its half; that may have more tokens."""
    rows = [pick_logits(source, vocab_size, Filters()) for _ in range(FAR_OF)]
    return max(rows, key=lambda one: _unlike(_left_of(row, one[1], EVERYTHING), _left_of(row, one[1], EVERYTHING / 2)))


def _left_of(row: Row, other: Row, share: Fraction) -> list[Fraction]:
    return [max(share * p - q, NOTHING) for p, q in zip_longest(row, other, fillvalue=NOTHING)]


def _unlike(one: list[Fraction], other: list[Fraction]) -> Fraction:
    """Return how far two rows of weights are from each other, as shares of their totals; 0 where one has none."""
    if not sum(one) or not sum(other):
        return NOTHING
    return sum((abs(p - q) for p, q in zip(normalised(one), normalised(other), strict=True)), NOTHING)


@composite
def chain_logit_batches(draw: DrawFn, is_certain: bool | None = None, is_block: bool = False) -> ChainLogitBatch:
    """Draw one to three chains of no to two drafts, each with filters of its own, greedy ones among them.

    Some drafts are certain. The draft's vocabulary is the target's, or has a token fewer or more. Blocks have two
    drafts, so that one has a front before its last, and draft rows far from the target's.
    """
    vocab_size = draw(st.sampled_from(VOCABULARIES[2:] if is_block else VOCABULARIES[:2]))
    draft_vocab = vocab_size + draw(mostly(st.just(0), st.sampled_from((-1, 1)), one_in=2))
    all_certain = draw(mostly(st.just(False), st.just(True), one_in=5)) if is_certain is None else is_certain
    one = st.tuples(
        bulk(),
        st.just(2) if is_block else st.integers(0, min(longest_chain(vocab_size), 2)),
        mostly(st.just(Filters()), st.sampled_from(ALL_FILTERS), one_in=2),
        mostly(st.just(False), st.just(True), one_in=4),
        st.sampled_from((0, 0, 1)),
    )
    scenes = tuple(
        make_logit_chain(
            source,
            count,
            (vocab_size, draft_vocab),
            filters,
            is_certain=all_certain or (certain and is_certain is None),
            num_padding=padding,
            is_far=is_block,
        )
        for source, count, filters, certain, padding in draw(st.lists(one, min_size=1, max_size=3))
    )
    return ChainLogitBatch(scenes, draft_vocab, draw(st.tuples(st.booleans(), st.booleans())), all_certain)


def block_logit_batches() -> SearchStrategy[ChainLogitBatch]:
    """Return a strategy of chains that are judged as blocks."""
    return chain_logit_batches(is_block=True)
