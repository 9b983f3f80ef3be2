"""Strategies of the objects that phases hand over; every entry of a batch differs from every other."""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.phases import (
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
from specsim.properties.strategies.arrays import Array, mostly

Form = dict[str, Any]
Numbers = Callable[..., Array]
Joinable = DraftInput | EagleDraftExtendInput


@st.composite
def joinable_batches(draw: DrawFn, how_many: int) -> list[Joinable]:
    """Draw so many batches of one class and form: empty ones, without hidden states, relayed, prepared or not."""
    numbers = _numbering(draw(_first_numbers()))
    form = draw(_forms())
    sizes = draw(st.lists(st.integers(0, 4), min_size=how_many, max_size=how_many))
    return [draw(_joinable(form, size, numbers)) for size in sizes]


@st.composite
def idle_beside(draw: DrawFn) -> tuple[Joinable, Joinable]:
    """Draw a batch and what an engine installs when no request is left."""
    (phase,) = draw(joinable_batches(1))
    width = draw(st.sampled_from((None, 2, 3)))
    if isinstance(phase, DraftInput):
        return phase, type(phase).create_idle_input(draw(st.integers(1, 3)), width)
    return phase, type(phase).create_idle_input(width)


@st.composite
def any_phase(draw: DrawFn) -> Phase:
    """Draw an object of any class."""
    draw(_first_numbers())
    kind = draw(st.sampled_from(("joinable", "verify", "output", "joinable", "extend", "verify", "joinable")))
    others: dict[str, Callable[[], SearchStrategy[Any]]] = {
        "verify": _verify_inputs,
        "output": _verify_outputs,
        "extend": _extend_inputs_v2,
    }
    phase: Phase = draw(others[kind]() if kind in others else joinable_batches(1).map(lambda phases: phases[0]))
    return phase


def mostly_joinable() -> SearchStrategy[Phase]:
    """Return a strategy of objects that a batch carries, and now and then of another class."""
    return mostly(joinable_batches(1).map(lambda phases: phases[0]), any_phase(), one_in=4)


@st.composite
def _extend_inputs_v2(draw: DrawFn) -> DraftExtendInput:
    size, width = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    ids, counts = np.zeros(size * width, dtype=np.int64), np.ones(size, dtype=np.int32)
    lengths = np.zeros(size, dtype=np.int64)
    hidden = np.zeros((size * width, 2), dtype=np.int64)
    return DraftExtendInput(ids, hidden, ids, ids, lengths, counts - 1, counts, lengths, width)


@st.composite
def _verify_inputs(draw: DrawFn) -> VerifyInput:
    size, width = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    ids, links = np.zeros(size * width, dtype=np.int64), np.zeros((size, width), dtype=np.int64)
    mask = np.ones(size * width * width, dtype=np.bool_)
    chosen = draw(st.sampled_from((VerifyInput, FrozenKVMTPVerifyInput)))
    return chosen(ids, links, links, links, ids, mask, ids, np.zeros(size, dtype=np.int64), width)


@st.composite
def _verify_outputs(draw: DrawFn) -> VerifyOutput:
    size, width = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    ids, counts = np.zeros(size * width, dtype=np.int64), np.ones(size, dtype=np.int32)
    paths, hidden = np.full((size, width), -1, dtype=np.int32), np.zeros((size * width, 2), dtype=np.int64)
    return VerifyOutput(ids, ids.astype(np.int32), paths, counts - 1, counts, counts, hidden)


def _forms() -> SearchStrategy[Form]:
    hidden = st.sampled_from((None, 2, 1))
    draft = st.fixed_dictionaries(
        {
            "class": st.sampled_from((DraftInput, FrozenKVMTPDraftInput)),
            "topk": st.integers(1, 3),
            "hidden": hidden,
            "is_relayed": mostly(st.just(False), st.just(True), one_in=3),
        }
    )
    extend = st.fixed_dictionaries(
        {
            "class": st.sampled_from((EagleDraftExtendInput, FrozenKVMTPDraftExtendInput)),
            "hidden": hidden,
            "is_prepared": st.booleans(),
            "num_tokens_per_req": st.sampled_from((5, -1, 4, 3)),
        }
    )
    return st.one_of(draft, extend)


@st.composite
def _joinable(draw: DrawFn, form: Form, size: int, numbers: Numbers) -> Joinable:
    if "topk" in form:
        return _draft_input(form, size, numbers)
    counts = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    return _extend_input(form, counts, numbers)


def _draft_input(form: Form, size: int, numbers: Numbers) -> DraftInput:
    topk, hidden = form["topk"], form["hidden"]
    chosen: type[DraftInput] = form["class"]
    rows, lengths = numbers(size), numbers(size)
    if form["is_relayed"]:
        return chosen(rows, lengths, None, None, None, None, numbers(size))
    return chosen(
        rows,
        lengths,
        numbers(size, topk).astype(np.float32),
        numbers(size, topk),
        None if hidden is None else numbers(size, hidden),
        numbers(size).astype(np.int32),
    )


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


def _first_numbers() -> SearchStrategy[int]:
    """Return a strategy of where to start counting.

    NOTE: drawn first, because of two draws the second one differs from the first in its first choice, which would
    otherwise be the class.
    """
    return st.integers(1, 10_000)


def _numbering(first: int) -> Numbers:
    """Return a function that makes int64 arrays of numbers that it has not used before."""
    following = count(first)

    def numbers(*shape: int) -> Array:
        return np.array([next(following) for _ in range(int(np.prod(shape)))], dtype=np.int64).reshape(shape)

    return numbers
