"""Strategies of the objects that phases hand over; every entry of a batch differs from every other."""

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.phases import (
    DflashDraftInput,
    DflashVerifyInput,
    DraftExtendInput,
    DraftInput,
    EagleDraftExtendInput,
    FrozenKVMTPDraftExtendInput,
    FrozenKVMTPDraftInput,
    FrozenKVMTPVerifyInput,
    Phase,
    VerifyInput,
    VerifyOutput,
)
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import Array, mostly

T = TypeVar("T")
Form = dict[str, Any]
Numbers = Callable[..., Array]
Joinable = DraftInput | EagleDraftExtendInput


def in_every_form(case_of: Callable[[Form, Numbers], SearchStrategy[T]]) -> SearchStrategy[tuple[T, ...]]:
    """Return a strategy that draws a case of every form of a batch.

    Parameters
    ----------
    case_of : callable
        Returns the strategy of one case from a form and a source of numbers; ``batch`` is one.
    """
    # NOTE: the first number comes first, because of two draws the second one differs from the first in its first
    # choice, which would otherwise be the class.
    return st.tuples(st.integers(1, 10_000), _forms()).flatmap(
        lambda drawn: st.tuples(*(case_of(form, numbering(drawn[0])) for form in drawn[1]))
    )


@composite
def batch(draw: DrawFn, form: Form, numbers: Numbers) -> Joinable:
    """Draw a batch of a form, now and then without requests or with one, which has no order."""
    size = draw(mostly(st.integers(2, 4), st.integers(0, 1), one_in=4))
    if "topk" in form:
        return _draft_input(form, size, numbers)
    counts = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    return _extend_input(form, counts, numbers)


def batches(how_many: int) -> SearchStrategy[tuple[tuple[Joinable, ...], ...]]:
    """Return a strategy of so many batches of every form."""
    return in_every_form(lambda form, numbers: st.tuples(*(batch(form, numbers) for _ in range(how_many))))


@composite
def idle_beside(draw: DrawFn, form: Form, numbers: Numbers) -> tuple[Joinable, Joinable]:
    """Draw a batch of a form and what an engine installs when no request is left."""
    phase = draw(batch(form, numbers))
    width = draw(st.sampled_from((None, 2, 3)))
    if isinstance(phase, DraftInput):
        return phase, type(phase).create_idle_input(draw(st.integers(1, 3)), width)
    return phase, type(phase).create_idle_input(width)


def every_phase() -> SearchStrategy[tuple[Phase, ...]]:
    """Return a strategy that draws an object of every class and form."""
    verifies = (_verify_inputs(one) for one in (VerifyInput, FrozenKVMTPVerifyInput, DflashVerifyInput))
    others = st.tuples(*verifies, _block_inputs(), _verify_outputs(), _extend_inputs_v2())
    return st.tuples(in_every_form(batch), others).map(lambda drawn: (*drawn[0], *drawn[1]))


@composite
def _block_inputs(draw: DrawFn) -> DflashDraftInput:
    counts = draw(st.lists(st.integers(0, 4), max_size=3))
    size, total = len(counts), sum(counts)
    hidden = np.zeros((total, 2), dtype=np.int64) if total else None
    ends = np.array(counts, dtype=np.int32)
    ids = np.zeros(size, dtype=np.int64)
    return DflashDraftInput(ids, ids, hidden, ends, ends)


@composite
def _extend_inputs_v2(draw: DrawFn) -> DraftExtendInput:
    size, width = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    ids, counts = np.zeros(size * width, dtype=np.int64), np.ones(size, dtype=np.int32)
    lengths = np.zeros(size, dtype=np.int64)
    hidden = np.zeros((size * width, 2), dtype=np.int64)
    return DraftExtendInput(ids, hidden, ids, ids, lengths, counts - 1, counts, lengths, width)


@composite
def _verify_inputs(draw: DrawFn, chosen: type[VerifyInput]) -> VerifyInput:
    size, width = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    ids, links = np.zeros(size * width, dtype=np.int64), np.zeros((size, width), dtype=np.int64)
    mask = np.ones(size * width * width, dtype=np.bool_)
    return chosen(ids, links, links, links, ids, mask, ids, np.zeros(size, dtype=np.int64), width)


@composite
def _verify_outputs(draw: DrawFn) -> VerifyOutput:
    size, width = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    ids, counts = np.zeros(size * width, dtype=np.int64), np.ones(size, dtype=np.int32)
    paths, hidden = np.full((size, width), -1, dtype=np.int32), np.zeros((size * width, 2), dtype=np.int64)
    return VerifyOutput(ids, ids.astype(np.int32), paths, counts - 1, counts, counts, hidden)


@composite
def _forms(draw: DrawFn) -> list[Form]:
    """Draw every form of a batch: relayed, prepared or not, with and without hidden states, under either tag."""
    has_hidden = draw(st.booleans())
    hidden, other_hidden = (2, None) if has_hidden else (None, draw(st.integers(1, 2)))
    tags = draw(st.permutations((DraftInput, FrozenKVMTPDraftInput)))
    topk = draw(st.integers(1, 3))
    drafts = [
        {"class": tags[0], "topk": topk, "hidden": hidden, "is_relayed": False},
        {"class": tags[1], "topk": topk, "hidden": other_hidden, "is_relayed": False},
        {"class": tags[0], "topk": topk, "hidden": None, "is_relayed": True},
    ]
    extends = [
        {
            "class": tag,
            "hidden": hidden if is_prepared else other_hidden,
            "is_prepared": is_prepared,
            "num_tokens_per_req": draw(st.sampled_from((5, -1, 4, 3))),
        }
        for tag in (EagleDraftExtendInput, FrozenKVMTPDraftExtendInput)
        for is_prepared in (True, False)
    ]
    return [*drafts, *extends]


def _draft_input(form: Form, size: int, numbers: Numbers) -> DraftInput:
    topk, hidden = form["topk"], form["hidden"]
    chosen: type[DraftInput] = form["class"]
    rows, lengths = numbers(size), numbers(size)
    if form["is_relayed"]:
        return chosen(rows, lengths, None, None, None, None, numbers(size))
    topk_p, topk_index = numbers(size, topk).astype(np.float32), numbers(size, topk)
    states = None if hidden is None else numbers(size, hidden)
    return chosen(rows, lengths, topk_p, topk_index, states, numbers(size).astype(np.int32))


def _extend_input(form: Form, counts: list[int], numbers: Numbers) -> EagleDraftExtendInput:
    size, total = len(counts), sum(counts)
    chosen: type[EagleDraftExtendInput] = form["class"]
    lengths = numbers(size)
    return chosen(
        req_pool_indices=numbers(size),
        seq_lens=lengths,
        seq_lens_cpu=tuple(lengths.tolist()),
        num_accepted_drafts=np.array(counts, dtype=np.int32) - np.int32(1),
        num_accepted_tokens=np.array(counts, dtype=np.int32),
        num_accepted_tokens_cpu=tuple(counts),
        input_ids=numbers(total),
        hidden_states=None if form["hidden"] is None else numbers(total, form["hidden"]),
        out_cache_loc=numbers(total),
        positions=numbers(total) if form["is_prepared"] else None,
        bonus_tokens=numbers(size).astype(np.int32) if form["is_prepared"] else None,
        num_tokens_per_req=form["num_tokens_per_req"],
    )


def numbering(first: int) -> Numbers:
    """Return what makes int64 arrays of numbers that it has not used before, so that no entry passes for another."""
    following = count(first)

    def numbers(*shape: int) -> Array:
        return np.array([next(following) for _ in range(int(np.prod(shape)))], dtype=np.int64).reshape(shape)

    return numbers
