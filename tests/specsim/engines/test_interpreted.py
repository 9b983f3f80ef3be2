"""Kernels of an engine are interpreted with one look at the language a call, wherever their file was read from."""

from collections import Counter

import numpy as np
import pytest
from triton import language
from triton.runtime import interpreter

from specsim.engines.interpreted import reading_once
from specsim.environment import INTERPRETER, says_yes
from specsim.gpu.launching.interpreter import ENTRIES, LOOK, SEMANTIC

needs_interpreter = pytest.mark.skipif(not says_yes(INTERPRETER), reason="kernels are compiled here")
EXCHANGED = (LOOK, SEMANTIC, ENTRIES)
EAGLE = """
import triton
import triton.language as tl


@triton.jit
def _last(row_ptr, length, width: tl.constexpr):
    columns = tl.arange(0, width)
    return tl.sum(tl.where(columns == length - 1, tl.load(row_ptr + columns), 0))


@triton.jit
def _fill_bonus_tokens(tokens_ptr, lens_ptr, bonus_ptr, width: tl.constexpr):
    request = tl.program_id(0)
    tl.store(bonus_ptr + request, _last(tokens_ptr + request * width, tl.load(lens_ptr + request), width))


def fill_bonus_tokens_func(accept_tokens, accept_lens, bonus_tokens, accept_stride, batch_size):
    for _ in range(2):
        _fill_bonus_tokens[(batch_size,)](accept_tokens, accept_lens, bonus_tokens, accept_stride)
"""
TOKENS, LENGTHS = np.array([[7, 8], [9, 0], [1, 2]], np.int32), np.array([2, 1, 1], np.int32)


@pytest.fixture
def backend(lay_out, adapter):
    """Return SGLang's adapter on a file that has a kernel which calls functions."""
    lay_out("sglang", {"kernels/ops/speculative/eagle.py": EAGLE}, version="0.5.23")
    return adapter("specsim.engines.sglang")


@needs_interpreter
def test_launches_of_a_call_look_once_at_what_each_module_sees(backend, monkeypatch):
    seen, look = Counter(), vars(interpreter)[LOOK]

    def counted(function):
        seen[function.__module__] += 1
        return look(function)

    monkeypatch.setattr(interpreter, LOOK, counted)
    assert backend.fill_bonus_tokens(TOKENS, LENGTHS).tolist() == [8, 9, 1]
    assert 0 < seen.total() <= 2, seen


@needs_interpreter
def test_the_language_is_put_back_after_a_call_that_fails_too(backend):
    backend.fill_bonus_tokens(TOKENS, LENGTHS)
    before, words = [vars(interpreter)[name] for name in EXCHANGED], dict(vars(language))

    def fail():
        assert vars(interpreter)[LOOK] is not before[0]
        raise ValueError("it fails")

    with pytest.raises(ValueError, match="it fails"):
        reading_once({"fail": fail})["fail"]()
    assert [vars(interpreter)[name] for name in EXCHANGED] == before
    assert dict(vars(language)) == words


def test_nothing_is_exchanged_where_kernels_are_compiled(monkeypatch):
    before = [vars(interpreter)[name] for name in EXCHANGED]
    monkeypatch.delenv(INTERPRETER, raising=False)
    looked = reading_once({"look": lambda: [vars(interpreter)[name] for name in EXCHANGED]})["look"]()
    assert looked == before
