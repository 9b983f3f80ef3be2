"""Size classes are around powers of two; what a law comes to is counted, and what it misses is named."""

from dataclasses import replace

import pytest
from hypothesis import strategies as st

from specsim.conformance import arrays
from specsim.conformance.backend import load
from specsim.environment import INTERPRETER
from specsim.properties.property import Property
from specsim.properties.reach.counting import counting_reach, reached, require_reach
from specsim.properties.reach.ends import End, Reuse, all_reuses
from specsim.properties.reach.sizes import (
    Dimension,
    Place,
    SizeClass,
    classes_of,
    largest_power,
    place_of,
    sizes_up_to,
)
from specsim.properties.runs.workers.laws_sizes import PROPERTIES
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.conformance.selection import examples_of
from specsim.reference.worker.v2 import ReferenceWorker

REFERENCE = load("specsim.reference")


def test_sizes_lie_around_every_power_of_two():
    assert sizes_up_to(1) == (1, 2)
    assert sizes_up_to(8) == (1, 2, 3, 4, 5, 7, 8, 9)
    assert sizes_up_to(64) == (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)


def test_every_size_is_wanted_of_both_forms_on_both_workers():
    wanted = classes_of((Dimension.OUTPUT, Dimension.STEPS), 64)
    assert len(wanted) == len(set(wanted)) == 2 * 17 * len(Place)
    assert {one.place for one in wanted if one.size == 33} == set(Place)


def test_a_chain_has_topk_one_and_a_single_request_pads_nothing():
    assert [str(one) for one in classes_of((Dimension.TOPK,), 1)] == [
        "topk 1, chain on V1",
        "topk 1, chain on V2",
        "topk 2, tree on V1",
        "topk 2, tree on V2",
    ]
    assert {one.size for one in classes_of((Dimension.PADDED,), 2)} == {2, 3}


def test_a_place_is_a_form_on_a_worker():
    assert place_of(is_tree=True, is_v1=False) is Place.TREE_V2
    assert place_of(is_tree=False, is_v1=True) is Place.CHAIN_V1
    assert [place for place in Place if place.is_tree and place.is_v1] == [Place.TREE_V1]


def test_rows_are_wanted_again_after_every_end():
    assert len(all_reuses()) == len(End) * len(Place)
    assert str(Reuse(End.ABORT, Place.TREE_V1)) == "row used again after abort, tree on V1"


def test_interpreted_kernels_are_tried_up_to_nine(monkeypatch):
    on_device = replace(REFERENCE, arrays=type(arrays)("tensors"))
    vars(on_device.arrays)["KIND"] = "torch"
    monkeypatch.setenv(INTERPRETER, "1")
    assert (largest_power(REFERENCE), largest_power(on_device)) == (64, 8)
    monkeypatch.setenv(INTERPRETER, "0")
    assert largest_power(on_device) == 64


def test_a_module_of_some_operations_is_tried_up_to_seventeen():
    some = replace(REFERENCE, functions={"fast_topk": REFERENCE.functions["fast_topk"]})
    assert largest_power(some) == 16
    assert largest_power(replace(some, worker=ReferenceWorker)) == 64


def test_a_quick_look_leaves_out_what_is_as_long_as_many():
    (tour, *_) = PROPERTIES
    assert [examples_of(tour, 19), examples_of(tour, 20), examples_of(tour, 40, 20)] == [0, 1, 3]


def test_counts_are_those_of_who_asks():
    reached("no one asks")
    with counting_reach() as counts:
        reached(SizeClass(Dimension.TOPK, 3, Place.TREE_V2))
        with counting_reach() as inner:
            reached("a")
            reached("a")
    assert counts == {"topk 3, tree on V2": 1}
    assert inner == {"a": 2}


def test_what_is_missed_is_named():
    assert require_reach(("a",), {"a": 2, "b": 1}) == {"a": 2}
    with pytest.raises(AssertionError) as caught:
        require_reach(("a", "b", "c"), {"a": 2})
    assert str(caught.value) == "reach = 1 of 3 classes, but not ['b', 'c']"


@pytest.mark.parametrize(("wanted", "failed"), [(("0", "1"), False), (("0", "7"), True)])
def test_a_law_that_misses_a_class_fails(wanted, failed):
    def law(backend, case):
        reached(case)

    one = Property("sizes.drawn", "", ("fast_topk",), lambda: st.integers(0, 1), law, must_reach=lambda backend: wanted)
    report, failure = run_property(one, REFERENCE, 0, 10)
    assert report.failed is failed
    if failed:
        assert failure.message == "reach = 1 of 2 classes, but not ['7']"
    else:
        assert report.reach.keys() == set(wanted)
