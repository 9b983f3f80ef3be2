"""Scenes of keyed draws: a small target, a draft, and where a request stands; and keys themselves."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.host.noise import PURPOSES
from specsim.properties.composite import composite
from specsim.properties.distribution import Outcome, Row
from specsim.properties.strategies.arrays import Bulk, bulk, mostly
from specsim.properties.strategies.sampling_scenes import pick_row, rows_of_kind

LARGEST_SEED = 2**64 - 1
BITS = (1, 1, 2**32, 2**33, 2**63)
"""By which bits the seeds of two requests differ that may be taken for one another."""

Key = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class KeyedScene:
    """One request whose draws read keyed noise.

    Parameters
    ----------
    target, proposal : dict
        Exact rows by the tokens before them, for every text shorter than ``horizon``.
    num_drafts : int
        Drafts of an iteration.
    horizon : int
        Output tokens that are compared: iterations go on until there are so many.
    seed, position : int
        The request's seed, and the index of its first output token.
    by_coin : bool
        Whether drafts and last tokens are drawn by a coin and prefix sums rather than by a race.
    lengths : tuple of int or None
        How many drafts the next iteration verifies, by the last draft of this one; None for all of them.
    is_coupled : bool
        Whether a draft right after those is judged as well, and cut.
    """

    target: dict[Outcome, Row]
    proposal: dict[Outcome, Row]
    num_drafts: int
    horizon: int
    seed: int = 0
    position: int = 0
    by_coin: bool = False
    lengths: tuple[int, ...] | None = None
    is_coupled: bool = False


@composite
def keyed_scenes(
    draw: DrawFn, num_drafts: int | None = None, is_lagged: bool = False, most_tokens: int = 4
) -> KeyedScene:
    """Draw a target and a draft of one or two drafts an iteration, and one token more than these to compare.

    Of three texts in four a rejection has several tokens to draw from, where there are more than two.
    """
    count = draw(st.sampled_from((1, 2))) if num_drafts is None else num_drafts
    vocab_size = min(draw(st.sampled_from((2, 3, 3, 4) if count == 1 else (2, 3, 3))), most_tokens)
    horizon, source = count + (count == 1), draw(bulk())
    prefixes = [prefix for length in range(horizon) for prefix in product(range(vocab_size), repeat=length)]
    rows = {prefix: _pair_of_rows(source, vocab_size) for prefix in prefixes}
    lengths = draw(st.sampled_from([one for one in product((0, 1), repeat=vocab_size) if len(set(one)) > 1]))
    return KeyedScene(
        {prefix: target for prefix, (target, _) in rows.items()},
        {prefix: proposal for prefix, (_, proposal) in rows.items()},
        count,
        horizon,
        draw(st.integers(0, LARGEST_SEED)),
        draw(st.integers(0, 2**20)),
        draw(st.booleans()),
        lengths if is_lagged else None,
    )


def _pair_of_rows(source: Bulk, vocab_size: int) -> tuple[Row, Row]:
    pairs = _leaving_several(vocab_size)
    if pairs and source.integer(0, 3):
        return pairs[source.integer(0, len(pairs) - 1)]
    return pick_row(source, vocab_size, "any"), pick_row(source, vocab_size, "broad")


@cache
def _leaving_several(vocab_size: int) -> tuple[tuple[Row, Row], ...]:
    """Return all rows of a target and a draft with two or more tokens that the draft proposes too seldom."""
    pairs = product(rows_of_kind(vocab_size, "any"), rows_of_kind(vocab_size, "broad"))
    return tuple((one, other) for one, other in pairs if sum(p > q for p, q in zip(one, other, strict=True)) > 1)


def blocks() -> SearchStrategy[KeyedScene]:
    """Return a strategy of scenes of two drafts, which block verification judges together."""
    return keyed_scenes(num_drafts=2)


def lagged_scenes() -> SearchStrategy[KeyedScene]:
    """Return a strategy of scenes in which an iteration's last draft chooses how many the next one verifies."""
    return keyed_scenes(num_drafts=2, is_lagged=True)


@composite
def pairs(draw: DrawFn) -> tuple[KeyedScene, KeyedScene]:
    """Draw two requests with one prompt and different seeds, which often differ by one bit."""
    scene = draw(keyed_scenes(num_drafts=1, most_tokens=3))
    scene = replace(scene, position=2 * (scene.position // 2), seed=2 * (scene.seed // 2))
    other = draw(mostly(st.sampled_from(BITS).map(lambda bit: scene.seed ^ bit), st.integers(0, LARGEST_SEED), 4))
    return scene, replace(scene, seed=other if other != scene.seed else scene.seed ^ 1)


def keys() -> SearchStrategy[Key]:
    """Return a strategy of what a key is made of."""
    return st.tuples(
        st.sampled_from([*PURPOSES]),
        st.integers(0, LARGEST_SEED),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**29 - 1),
        st.integers(0, 2**32 - 1),
    )
