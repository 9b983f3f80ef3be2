"""Requests that end, or nearly: every kind of stop at every offset of an accepted run, alone and in pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from specsim.host.grammar import TableGrammar
from specsim.host.stopping import FinishReason, StopRules
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import bulk
from specsim.properties.strategies.made_once import made_once

TEXTS = (".", "", "#", "", "a", "b", "c", "ab", "bc", "ca", "xab", "é")
"""Text of each token: one character, several, or none."""
FILLER, EOS, STOP_TOKEN, SILENT = 0, 1, 2, 3
LETTERS = (4, 5, 6, 7, 8, 9, 10, 11)
LAST_LETTER = 5
"""A token with text that ends strings and, in some cases, is an EOS or a stop token too."""
SPELLINGS: dict[str, tuple[tuple[int, ...], ...]] = {
    "b": ((5,),),
    "ab": ((7,), (4, 5), (10,), (4, SILENT, 5)),
    "abc": ((4, 5, 6), (7, 6), (4, 8), (10, SILENT, 6)),
    "cab": ((9, 5), (6, 7), (6, 4, 5)),
}
"""Ways to write each stop string as tokens; some begin before the string or hold a token without text."""
KINDS = tuple(reason for reason in FinishReason if reason not in (FinishReason.ABORT, FinishReason.GRAMMAR))
SCENES = ("any", "any", "any", "any", "across runs", "minimum", "rejected")
"""Any stops; a string that begins before a long run; one that a minimum meets; or an EOS that was rejected."""
MAX_RUN = 8
MAX_REQUESTS = 10


def text_of(token: int) -> str:
    """Return the text of a token of these cases."""
    return TEXTS[token]


@dataclass(frozen=True)
class StopCase:
    """One verify of a request that may end in it.

    ``row_tokens`` starts with the ``num_accepted_tokens`` tokens of the run; the rest was drafted and rejected.
    """

    rules: StopRules
    prompt_length: int
    output: tuple[int, ...]
    row_tokens: tuple[int, ...]
    num_accepted_tokens: int

    @property
    def accepted(self) -> tuple[int, ...]:
        """Return the accepted run."""
        return self.row_tokens[: self.num_accepted_tokens]

    @property
    def tokens(self) -> tuple[int, ...]:
        """Return the output with the whole run."""
        return (*self.output, *self.accepted)


@dataclass(frozen=True)
class StopBatch:
    """A verified batch: one case a request, its accepted path among the nodes of its tree."""

    cases: tuple[StopCase, ...]
    accept_index: NDArray[np.int32]
    predict: NDArray[np.int32]


@made_once
@composite
def stop_cases(draw: DrawFn) -> StopCase:
    """Draw a run and place up to two kinds of stops at chosen offsets of it, or one of the ``SCENES``.

    A minimum of output tokens, where there is one, lies at one of the stops or one beside it.
    """
    scene = draw(st.sampled_from(SCENES))
    num_before, length = draw(st.integers(0, 4)), draw(st.sampled_from((1, 2, 3, 4, 5, 7, MAX_RUN, MAX_RUN)))
    prompt_length = draw(st.integers(1, 3))
    chosen = draw(_kinds_of(scene))
    offsets = [draw(st.sampled_from((*range(length), 0, length - 1))) for _ in chosen]
    if draw(st.integers(0, 3)) == 3:
        offsets = offsets[:1] * len(chosen)
    if scene == "across runs":
        num_before, length, offsets = max(num_before, 2), MAX_RUN, [0, draw(st.integers(1, MAX_RUN - 1))]
    shared: frozenset[int] = frozenset({LAST_LETTER} if draw(st.integers(0, 2)) == 2 else ())
    tokens = _background(draw, num_before + length)
    strings = draw(st.lists(st.sampled_from(sorted(SPELLINGS)), min_size=1, max_size=2, unique=True))
    for kind, offset in zip(chosen, offsets, strict=True):
        _place(tokens, num_before + offset, draw(_spelling(kind, strings[0], shared, scene == "across runs")))
    ends = [num_before + offset + 1 for offset in offsets]
    at = dict(zip(chosen, ends, strict=True))
    most = at.get(FinishReason.LENGTH, num_before + length + draw(st.integers(1, 3)))
    limit = at.get(FinishReason.CONTEXT)
    has_minimum = bool(ends) and scene != "across runs" and (scene == "minimum" or draw(st.booleans()))
    beside = st.sampled_from((1, 1, 0)) if scene == "minimum" else st.integers(-1, 1)
    least = max(0, draw(st.sampled_from(ends)) + draw(beside)) if has_minimum else 0
    has_eos = scene == "rejected" or FinishReason.EOS in at or draw(st.booleans())
    rules = StopRules(
        max_new_tokens=most,
        eos_tokens=shared | {EOS} if has_eos else frozenset(),
        stop_tokens=shared | {STOP_TOKEN} if FinishReason.STOP_TOKEN in at else frozenset(),
        stop_strings=tuple(strings) if FinishReason.STOP_STRING in at else (),
        min_new_tokens=min(least, most),
        context_limit=None if limit is None else prompt_length + limit,
    )
    rejected = draw(st.lists(st.sampled_from((EOS, FILLER, STOP_TOKEN, LETTERS[0])), max_size=3))
    rejected += [EOS] if scene == "rejected" else []
    tokens = _without_an_end_before_the_run(rules, tokens, num_before)
    row_tokens, num_accepted_tokens = (*tokens[num_before:], *rejected), len(tokens) - num_before
    return StopCase(rules, prompt_length, tuple(tokens[:num_before]), row_tokens, num_accepted_tokens)


def stop_requests() -> SearchStrategy[list[StopCase]]:
    """Draw the requests of a batch."""
    return st.lists(stop_cases(), min_size=1, max_size=MAX_REQUESTS)


def run_requests() -> SearchStrategy[list[tuple[StopCase, tuple[tuple[int, ...], ...]]]]:
    """Draw the requests of a batch and the runs of their verifies."""
    return st.lists(run_cases(), min_size=1, max_size=MAX_REQUESTS)


@composite
def run_cases(draw: DrawFn) -> tuple[StopCase, tuple[tuple[int, ...], ...]]:
    """Draw a case and cut its output and run into the runs of several verifies."""
    case = draw(stop_cases())
    runs: list[tuple[int, ...]] = []
    rest = case.tokens
    while rest:
        length = draw(st.integers(1, min(len(rest), MAX_RUN)))
        runs.append(rest[:length])
        rest = rest[length:]
    return case, tuple(runs)


@made_once
@composite
def stop_batches(draw: DrawFn) -> StopBatch:
    """Draw a batch of cases and put each run on a path of its tree; what lies off the paths is rejected drafts."""
    cases = draw(st.lists(stop_cases(), max_size=MAX_REQUESTS))
    width = max((case.num_accepted_tokens for case in cases), default=1) + draw(st.integers(0, 1))
    num_nodes = width + draw(st.integers(0, 2))
    garbage = (FILLER, EOS, STOP_TOKEN, *LETTERS)
    accept_index = np.full((len(cases), width), -1, dtype=np.int32)
    predict = np.array([garbage[place % len(garbage)] for place in range(len(cases) * num_nodes)], dtype=np.int32)
    for request, case in enumerate(cases):
        skipped = draw(st.integers(1, num_nodes)) if num_nodes > width else num_nodes
        path = [node for node in range(num_nodes) if node != skipped][: case.num_accepted_tokens]
        accept_index[request, : len(path)] = [request * num_nodes + node for node in path]
        predict[accept_index[request, : len(path)]] = case.accepted
    accept_index.flags.writeable = predict.flags.writeable = False
    return StopBatch(tuple(cases), accept_index, predict)


@composite
def clip_cases(draw: DrawFn) -> tuple[StopRules, int, int]:
    """Draw rules, tokens of prompt and output, and drafts, near the context limit and far from it."""
    limit = draw(st.one_of(st.none(), st.integers(2, 20)))
    num_tokens = draw(st.integers(1, 30 if limit is None else limit - 1))
    return StopRules(40, context_limit=limit), num_tokens, draw(st.integers(0, 8))


@made_once
def _kinds_of(scene: str) -> SearchStrategy[list[FinishReason]]:
    """Return the kinds of stops of a scene: of any stops mostly two, sometimes none; else a string comes first."""
    kind = st.sampled_from(KINDS)
    if scene == "any":
        return st.sampled_from((0, 1, 2, 2, 2, 2)).flatmap(lambda count: _distinct(kind, count))
    if scene == "rejected":
        return st.just([])
    later = kind.filter(lambda reason: reason is not FinishReason.STOP_STRING)
    num_later = 1 if scene == "across runs" else 0
    return _distinct(later, num_later).map(lambda others: [FinishReason.STOP_STRING, *others])


def _distinct(kind: SearchStrategy[FinishReason], count: int) -> SearchStrategy[list[FinishReason]]:
    return st.lists(kind, min_size=count, max_size=count, unique=True)


def _background(draw: DrawFn, length: int) -> list[int]:
    """Return tokens without a stop, or now and then any tokens."""
    if draw(st.integers(0, 3)):
        return draw(st.lists(st.sampled_from((FILLER, SILENT)), min_size=length, max_size=length))
    return draw(st.lists(st.sampled_from(range(len(TEXTS))), min_size=length, max_size=length))


def _spelling(
    kind: FinishReason, string: str, shared: frozenset[int], is_long: bool
) -> SearchStrategy[tuple[int, ...]]:
    """Return the tokens that end with a stop of a kind, several if a string has such a spelling; limits need none."""
    if kind is FinishReason.STOP_STRING:
        several = [spelling for spelling in SPELLINGS[string] if len(spelling) > 1]
        return st.sampled_from(several if is_long and several else SPELLINGS[string])
    own = {FinishReason.EOS: EOS, FinishReason.STOP_TOKEN: STOP_TOKEN}
    return st.sampled_from([(token,) for token in (own[kind], *shared)] if kind in own else [()])


def _place(tokens: list[int], last: int, spelling: Sequence[int]) -> None:
    """Write a spelling so that it ends at a place; what would lie before the output is lost."""
    for distance, token in enumerate(reversed(spelling)):
        if last - distance >= 0:
            tokens[last - distance] = token


def _without_an_end_before_the_run(rules: StopRules, tokens: list[int], num_before: int) -> list[int]:
    """Replace what would have ended the request before its run, so that the output so far is one of a live request."""
    kept = list(tokens)
    for place in range(num_before):
        ends_by_token = kept[place] in rules.eos_tokens | rules.stop_tokens
        text = "".join(map(text_of, kept[: place + 1]))
        ends_by_string = any(stop in text for stop in rules.stop_strings)
        if place + 1 >= rules.min_new_tokens and (ends_by_token or ends_by_string):
            kept[: place + 1] = [FILLER] * (place + 1)
    return kept


@composite
def grammar_batches(draw: DrawFn) -> tuple[StopBatch, TableGrammar, list[int]]:
    """Draw a batch, an automaton that allows every token and ends in some states, and where each request stands."""
    batch = draw(stop_batches())
    source = draw(bulk())
    num_states = draw(st.integers(2, 6))
    transitions = source.integers((num_states, len(TEXTS)), 0, num_states - 1, np.int32)
    terminated = source.integers(num_states, 0, 4) == 4
    terminated[0] = False
    states = [source.integer(0, num_states - 1) for _ in batch.cases]
    return batch, TableGrammar(transitions, terminated, 0), [0 if terminated[state] else state for state in states]
