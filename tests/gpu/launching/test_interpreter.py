"""The interpreter looks through its language once a call, and what finds nothing more to replace is not asked."""

from collections import Counter

import pytest
import torch
from triton import language
from triton.runtime import interpreter

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.blocks import INTERPRETED
from specsim.gpu.launching.examples import SMALL, example
from specsim.gpu.launching.interpreter import ENTRIES, LOOK, SEMANTIC, interpret
from specsim.gpu.launching.mode import launching

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


def test_an_empty_tensor_may_start_where_another_one_does():
    lengths = torch.tensor([2, 10], dtype=torch.int32)
    nobody = torch.from_numpy(lengths.numpy()[:0].view("int64"))
    assert nobody.untyped_storage().data_ptr() == lengths.untyped_storage().data_ptr()
    counts = gpu.create_num_accepted_drafts_filter(torch.tensor([6, 31], dtype=torch.int32), nobody, lengths)
    assert counts.tolist() == [0, 0]
    assert lengths.tolist() == [9, 42]


EXCHANGED = (LOOK, SEMANTIC, ENTRIES)


def language_now():
    """Return what the interpreter and the language consist of, members of tensors included."""
    return [dict(vars(one)) for one in (language, language.core, language.tensor, language.dtype, language.math)]


def test_everything_is_put_back_also_when_a_launch_fails():
    def run():
        with launching(launches.append):
            gpu.target_probabilities(**example("target_probabilities", SMALL, DEVICE))

    before, words, launches = [vars(interpreter)[name] for name in EXCHANGED], language_now(), []
    run()
    assert [vars(interpreter)[name] for name in EXCHANGED] == before
    assert language_now() == words
    with pytest.raises(TypeError, match="missing"):
        interpret([(launches[0].plan, {})])
    assert [vars(interpreter)[name] for name in EXCHANGED] == before
    assert language_now() == words
