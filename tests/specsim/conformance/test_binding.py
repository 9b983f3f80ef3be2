"""Ours call what an implementation brings, wherever they call anything of the catalogue."""

from collections import Counter
from dataclasses import replace

import pytest

from specsim.conformance.backend import load
from specsim.conformance.binding import asked_by, bound, ours, reached_by
from specsim.conformance.catalogue import CATALOGUE
from specsim.conformance.completed import Completed
from specsim.simulation.memory import DecodeSizes

REFERENCE = load("specsim.reference")
SIZES = DecodeSizes(2, 3, 7, allocates_ahead=True)
ASKING = [(name, one) for name in CATALOGUE for one in asked_by(name)]


def twice(sizes, page_size):
    return 2 * ours("alloc_len_per_decode")(sizes, page_size)


def module(**functions):
    return replace(REFERENCE, name="mine", functions=functions, uses=Counter())


def test_an_operation_asks_for_nothing():
    assert asked_by("build_tree") == ()
    assert ours("build_tree") is None


def test_what_is_reached_is_what_is_asked_for_by_what_is():
    assert asked_by("prepare_for_decode") == ("next_allocated_length",)
    assert reached_by("prepare_for_decode") == {"next_allocated_length", "alloc_len_per_decode"}


@pytest.mark.parametrize(("name", "one"), ASKING)
def test_what_is_asked_for_is_ours_by_default(name, one):
    (given,) = [each.default for each in _parameters(name) if each.name == one]
    assert given is ours(one)


def _parameters(name):
    import inspect

    return inspect.signature(ours(name)).parameters.values()


@pytest.mark.parametrize("whole", [False, True], ids=["a module of one part", "a module that has ours, too"])
def test_ours_calls_what_a_module_brings_through_another_one_of_ours(whole):
    brought = {**REFERENCE.functions, "alloc_len_per_decode": twice} if whole else {"alloc_len_per_decode": twice}
    backend = module(**brought)
    operations = Completed(backend, REFERENCE)
    plain = REFERENCE.host("next_allocated_length")(5, 5, SIZES, 1)
    assert operations.host("next_allocated_length")(5, 5, SIZES, 1) - 5 == 2 * (plain - 5)
    assert operations.next_allocated_length(5, 5, SIZES, 1) - 5 == 2 * (plain - 5)
    assert backend.uses["alloc_len_per_decode"] == 2


def test_what_is_only_looked_up_does_not_count_what_it_would_call():
    backend = module(alloc_len_per_decode=twice)
    Completed(backend, REFERENCE).host("next_allocated_length")
    assert backend.uses["alloc_len_per_decode"] == 0


def test_a_function_of_somebody_else_gets_nothing_that_it_does_not_take():
    def own(num_committed, num_allocated, sizes, page_size):
        return 77

    backend = module(next_allocated_length=own, alloc_len_per_decode=twice)
    assert Completed(backend, REFERENCE).host("next_allocated_length") is own


def test_ours_alone_are_handed_out_as_they_are():
    for name in ("next_allocated_length", "release_finished", "truncate_at_stop"):
        assert REFERENCE.host(name) is ours(name)
        assert bound(name, ours(name), REFERENCE.functions.get, REFERENCE.host) is ours(name)
