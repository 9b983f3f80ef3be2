"""The interpreter looks through its language once a call, and what finds nothing more to replace is not asked."""

import inspect
from collections import Counter
from functools import wraps

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton import language
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.blocks import INTERPRETED
from specsim.gpu.launching.examples import SMALL, example
from specsim.gpu.launching.interpreter import ENTRIES, LOOK, SEMANTIC, interpret, read_once
from specsim.gpu.launching.mode import launching
from specsim.operations import RECORDS

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="kernels are compiled here")


@pytest.fixture
def looks(monkeypatch):
    """Count the looks by the module of the function that asked for one."""
    seen, look = Counter(), vars(interpreter)[LOOK]

    def counted(function):
        seen[function.__module__] += 1
        return look(function)

    monkeypatch.setattr(interpreter, LOOK, counted)
    return seen


def test_a_call_looks_once_at_what_each_module_sees(looks):
    launches = []
    with launching(launches.append):
        gpu.target_probabilities(**example("target_probabilities", SMALL, DEVICE))
    assert len(launches) > 0
    assert 0 < sum(looks.values()) <= 2, looks


def test_a_later_call_replaces_the_same_and_looks_again_where_the_language_has_changed(looks, monkeypatch):
    arguments = example("target_probabilities", SMALL, DEVICE)
    expected = gpu.target_probabilities(**arguments)
    assert looks
    looks.clear()
    assert torch.equal(gpu.target_probabilities(**arguments), expected)
    assert not looks
    used = []

    @language.core.builtin
    def load(*given, _semantic=None, **named):
        used.append(given)
        return member(*given, _semantic=_semantic, **named)

    member = language.load
    for name in ("load", "added_since"):
        with monkeypatch.context() as patch:
            patch.setattr(language, name, load, raising=False)
            assert torch.equal(gpu.target_probabilities(**arguments), expected)
        assert looks, name
        looks.clear()
    assert used, "what stands in its place is what runs"


def test_an_empty_tensor_may_start_where_another_one_does():
    lengths = torch.tensor([2, 10], dtype=torch.int32)
    idle = torch.from_numpy(lengths.numpy()[:0].view("int64"))
    assert idle.untyped_storage().data_ptr() == lengths.untyped_storage().data_ptr()
    counts = gpu.create_num_accepted_drafts_filter(torch.tensor([6, 31], dtype=torch.int32), idle, lengths)
    assert counts.tolist() == [0, 0]
    assert lengths.tolist() == [9, 42]


@pytest.mark.parametrize("name", RECORDS)
def test_masks_are_of_booleans_where_they_reach_memory(name, monkeypatch):
    seen = set()

    def watched(member):
        @wraps(member)
        def call(*given, **named):
            seen.add(inspect.signature(member).bind(*given, **named).arguments["mask"].data.dtype)
            return member(*given, **named)

        return call

    for access in ("create_masked_load", "create_masked_store", "create_atomic_rmw"):
        monkeypatch.setattr(
            interpreter.interpreter_builder, access, watched(getattr(interpreter.interpreter_builder, access))
        )
    getattr(gpu, name)(**example(name, SMALL, DEVICE))
    assert seen == {np.dtype(bool)}


@triton.jit
def _count_kernel(out_ptr, count):
    for _ in range(0, count):
        tl.store(out_ptr, tl.load(out_ptr) + 1)


def test_an_argument_bounds_a_loop_whose_number_triton_cannot_read(monkeypatch):
    def refuse(value):
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")

    look = vars(interpreter)[LOOK]

    def looking(function):
        scope = look(function)
        language.tensor.__index__ = refuse
        return scope

    monkeypatch.setattr(interpreter, LOOK, looking)
    out = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(InterpreterError, match="0-dimensional"):
        _count_kernel[(1,)](out, 3)
    with read_once():
        _count_kernel[(1,)](out, 3)
    assert out.tolist() == [3]


EXCHANGED = (LOOK, SEMANTIC, ENTRIES)


def language_now():
    """Return what the interpreter and the language consist of, members of tensors included."""
    return [dict(vars(one)) for one in (language, language.core, language.tensor, language.dtype, language.math)]


def test_everything_is_put_back_also_when_a_launch_fails():
    def run():
        with launching(launches.append):
            gpu.target_probabilities(**example("target_probabilities", SMALL, DEVICE))

    before, words, launches = [vars(interpreter)[name] for name in EXCHANGED], language_now(), []
    for _ in range(3):
        run()
        assert [vars(interpreter)[name] for name in EXCHANGED] == before
        assert language_now() == words
    with pytest.raises(TypeError, match="missing"):
        interpret([(launches[0].plan, {})])
    assert [vars(interpreter)[name] for name in EXCHANGED] == before
    assert language_now() == words
