"""Calls with anything wrong through ``load``: none is answered wrongly, none ends in an error but a rejection.

``python -m tests.faults.mutated_calls`` prints the figures.
"""

from dataclasses import replace

import numpy as np
import pytest

from specsim.conformance import backend as backends
from specsim.conformance.backend import load
from tests.faults.mutated_calls import attack

ORACLE = load("specsim.reference")


def require_nothing_found(implementation, count):
    figures = attack(load(implementation), count)
    assert not figures.found, f"{figures}; for example {figures.found[:3]}"
    assert figures.counts["tried"] >= count
    assert figures.counts["accepted"] > count / 10 < figures.counts["rejected"]


@pytest.mark.parametrize(("implementation", "count"), [("specsim.reference", 400), ("specsim.gpu", 148)])
def test_mutated_calls_are_answered_or_refused(implementation, count):
    require_nothing_found(implementation, count)


@pytest.mark.slow
@pytest.mark.first
@pytest.mark.parametrize(("implementation", "count"), [("specsim.reference", 4_000), ("specsim.gpu", 1_000)])
def test_many_mutated_calls_are_answered_or_refused(implementation, count):
    require_nothing_found(implementation, count)


def outcomes_with(operation, function):
    """Return what the attack finds where one operation of the reference is another function."""
    planted = replace(ORACLE, functions={**ORACLE.functions, operation: function})
    return {name for name, count in attack(planted, 60, operations=(operation,)).counts.items() if count}


def test_planted_faults_are_found():
    def leaks(values, k):
        if values.dtype.name not in ("float32", "float16", "bfloat16"):
            raise TypeError("no kernel")
        return ORACLE.functions["fast_topk"](values, k)

    def is_off(values, k):
        kept = ORACLE.functions["fast_topk"](values, k)
        return kept._replace(topk_index=kept.topk_index + 1)

    def is_shy(values, k):
        ORACLE.functions["fast_topk"](values, 0)

    assert "leaked" in outcomes_with("fast_topk", leaks)
    assert "wrong" in outcomes_with("fast_topk", is_off)
    assert "refused without cause" in outcomes_with("fast_topk", is_shy)


def test_a_door_left_open_is_found(monkeypatch):
    """Without the check of what is written, calls leak; copies that drop what a caller gave give other answers."""
    with monkeypatch.context() as patch:
        patch.setattr(backends, "check_written", lambda record, arguments: None)
        assert attack(load("specsim.gpu"), 100, operations=("move_kv_cache",)).counts["leaked"]
    with monkeypatch.context() as patch:
        patch.setattr(backends, "copy_in_place", lambda value: np.array(value, order="K"))
        assert attack(ORACLE, 100, operations=("fast_topk",)).counts["wrong"]
