"""Histories of an n-gram store, documents of corpora, and texts that both are asked to continue."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.host.ngram import NgramParameters, TreeMode
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import Bulk, bulk, one_of_evenly

Text = tuple[int, ...]

_ROOMY = 1000
_MOSTLY_PROB = (TreeMode.PROB, TreeMode.PROB, TreeMode.BFS)


@dataclass(frozen=True)
class NgramHistory:
    """A store's parameters, and what it reads; after each text it is asked to continue some others.

    Parameters
    ----------
    parameters : NgramParameters
        Small sizes, so that paths are cut, trees are full and nodes are forgotten.
    turns : tuple of (text, tuple of texts)
        What is inserted, and what is continued then; these have at least one token.
    """

    parameters: NgramParameters
    turns: tuple[tuple[Text, tuple[Text, ...]], ...]


@dataclass(frozen=True)
class CorporaCase:
    """Documents of some corpora, what a store has read, and texts that all of them continue in one draft.

    Parameters
    ----------
    parameters : NgramParameters
        Those of the store and of every corpus.
    corpora : tuple of tuples of texts
        The documents of each corpus, at least one of them not empty; there may be no corpus.
    said : tuple of texts
        What the store has read.
    contexts : tuple of texts
        What is continued.
    budget : int
        Nodes that the corpora may draft together.
    """

    parameters: NgramParameters
    corpora: tuple[tuple[Text, ...], ...]
    said: tuple[Text, ...]
    contexts: tuple[Text, ...]
    budget: int


@dataclass(frozen=True)
class SharedBudget:
    """Nodes of a draft, and how many corpora ask for how many of them."""

    num_draft_tokens: int
    num_corpora: int
    budget: int


def ngram_histories() -> SearchStrategy[list[NgramHistory]]:
    """Return a strategy of a few histories, of which one knows a lot and the others do, forget a lot, or neither."""
    others = one_of_evenly(ngram_history(), crowded_history(), tight_history())
    return st.tuples(crowded_history(), st.lists(others, min_size=1, max_size=5)).map(
        lambda drawn: [drawn[0], *drawn[1]]
    )


@composite
def ngram_history(draw: DrawFn) -> NgramHistory:
    """Draw a history over few tokens, 0 among them: texts come again, as wholes and as parts."""
    parameters = draw(_parameters())
    vocab = draw(st.sampled_from((3, 2, 6)))
    source = draw(bulk())
    turns: list[tuple[Text, tuple[Text, ...]]] = []
    read: list[Text] = []
    for _ in range(draw(st.integers(1, 9))):
        read.append(_text(source, read, vocab, parameters.max_depth))
        asked = tuple(_context(source, read, vocab, parameters.max_depth) for _ in range(3))
        turns.append((read[-1], asked))
    return NgramHistory(parameters, tuple(turns))


@composite
def crowded_history(draw: DrawFn) -> NgramHistory:
    """Draw a store that knows more of most contexts than a draft has nodes, or a level has breadth."""
    source = draw(bulk())
    parameters = _sizes(draw, _MOSTLY_PROB, (4, 5, 3), (2, 3, 4), (), (5, 8, 4, 6))
    text = tuple(source.integers(draw(st.sampled_from((24, 12, 36))), 0, draw(st.sampled_from((2, 3, 4)))).tolist())
    starts = source.integers(6, 0, len(text) - 1).tolist()
    contexts = tuple(text[start : start + parameters.max_depth - place % 3] for place, start in enumerate(starts))
    return NgramHistory(parameters, ((text, contexts), (text[: source.integer(0, 9)], contexts[:3])))


@composite
def tight_history(draw: DrawFn) -> NgramHistory:
    """Draw a store that goes on reading one text of few tokens, and forgets most of it before it comes again."""
    source = draw(bulk())
    parameters = _sizes(draw, _MOSTLY_PROB, (2, 3, 4), (2, 3), (5, 3, 8, 12), (3, 2, 5))
    vocab = draw(st.sampled_from((3, 4, 2)))
    parts = [tuple(source.integers(6, 0, vocab - 1).tolist()) for _ in range(draw(st.integers(3, 8)))]
    asked = tuple((token,) for token in range(vocab))
    return NgramHistory(parameters, tuple((part, asked) for part in parts))


def corpora_cases() -> SearchStrategy[list[CorporaCase]]:
    """Return a strategy of a few stores with corpora, of which some go on long after a context ends."""
    return st.lists(one_of_evenly(corpora_case(), long_document()), min_size=2, max_size=6)


@composite
def long_document(draw: DrawFn) -> CorporaCase:
    """Draw one document of few tokens, asked for contexts a token longer than a path, and few nodes for all it says."""
    source = draw(bulk())
    parameters = _sizes(draw, tuple(TreeMode), (2, 3), (2, 3), (), (3, 2, 4))
    text = tuple(source.integers(24, 0, draw(st.sampled_from((1, 2)))).tolist())
    longest = parameters.max_depth + 1
    contexts = tuple(text[start : start + longest] for start in source.integers(6, 0, len(text) - longest - 1).tolist())
    return CorporaCase(parameters, ((text,),), (text[:6],), contexts, parameters.num_draft_tokens)


@composite
def corpora_case(draw: DrawFn) -> CorporaCase:
    """Draw documents that share parts with each other and with what the store has read; budgets reach past a draft."""
    parameters = replace(draw(_parameters()), capacity=_ROOMY)
    vocab = draw(st.sampled_from((3, 2, 6)))
    source = draw(bulk())
    read: list[Text] = []

    def documents(most: int, fewest: int) -> tuple[Text, ...]:
        found = [_text(source, read, vocab, 2 * parameters.max_depth) for _ in range(source.integer(fewest, most))]
        read.extend(found)
        return tuple(found)

    corpora = []
    for _ in range(draw(st.sampled_from((2, 1, 3, 0)))):
        found = documents(3, 1)
        corpora.append(found if any(found) else ((0,),))
    said = documents(4, 0)
    contexts = tuple(_context(source, read, vocab, parameters.max_depth) for _ in range(4))
    most = parameters.num_draft_tokens
    budget = draw(st.one_of(st.integers(0, most + 2), st.sampled_from((most, most - 1, most + 1))))
    return CorporaCase(parameters, tuple(corpora), said, contexts, budget)


def shared_budgets() -> SearchStrategy[list[SharedBudget]]:
    """Return a strategy of budgets: those that corpora share evenly, those that leave a rest, and too large ones."""
    one = st.builds(SharedBudget, st.integers(1, 16), st.integers(0, 4), st.integers(0, 20))
    return st.lists(one, min_size=3, max_size=8)


def _sizes(draw: DrawFn, modes: Sequence[TreeMode], *sizes: Sequence[int]) -> NgramParameters:
    """Draw parameters each of which is one of some: depths, breadths, rooms beside one path, of none a lot, and nodes.

    They are drawn in this order, the mode last.
    """
    depths, breadths, rooms, num_nodes = sizes
    max_depth = draw(st.sampled_from(depths))
    return NgramParameters(
        max_depth=max_depth,
        max_breadth=draw(st.sampled_from(breadths)),
        capacity=max_depth + draw(st.sampled_from(rooms)) if rooms else _ROOMY,
        num_draft_tokens=draw(st.sampled_from(num_nodes)),
        mode=draw(st.sampled_from(modes)),
    )


@composite
def _parameters(draw: DrawFn) -> NgramParameters:
    max_depth = draw(st.sampled_from((3, 4, 2, 5)))
    min_breadth = draw(st.sampled_from((1, 1, 2)))
    return NgramParameters(
        max_depth=max_depth,
        min_breadth=min_breadth,
        max_breadth=min_breadth + draw(st.sampled_from((2, 3, 0, 1, 4))),
        capacity=max_depth + 1 + draw(st.sampled_from((_ROOMY, 0, 1, 3, 6, 12))),
        num_draft_tokens=draw(st.sampled_from((6, 4, 9, 12, 2, 1))),
        mode=draw(st.sampled_from(TreeMode)),
    )


def _text(source: Bulk, read: list[Text], vocab: int, most: int) -> Text:
    """Return a text of its own, or one that was read before, or part of that with another end."""
    kind = source.integer(0, 3) if read else 0
    fresh = tuple(source.integers(source.integer(0, most + 3), 0, vocab - 1).tolist())
    if kind < 2:
        return fresh
    earlier = read[source.integer(0, len(read) - 1)]
    if kind == 2:
        return earlier
    return (*earlier[: source.integer(0, len(earlier))], *fresh[:2])


def _context(source: Bulk, read: list[Text], vocab: int, max_depth: int) -> Text:
    """Return the front of something that was read, often after tokens that were not, or any token."""
    earlier = read[source.integer(0, len(read) - 1)] if read else ()
    start = source.integer(0, max(0, len(earlier) - 2))
    length = source.integer(1, max_depth + 1) if source.integer(0, 1) else max_depth + 2
    known = earlier[start : start + length]
    before = tuple(source.integers(source.integer(0, 2), 0, vocab).tolist())
    return (*before, *known) or (source.integer(0, vocab),)
