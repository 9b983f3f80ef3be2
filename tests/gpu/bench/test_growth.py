from dataclasses import replace

import pytest
import torch

from specsim.gpu.bench.every import ROWS, shape_of
from specsim.gpu.bench.growth import AXES, PROBE, PROBED, growths_of, has_axis, most_nodes, sizes_along, works_along
from specsim.gpu.bench.iteration import EngineSizes
from specsim.gpu.bench.peer import on_host
from specsim.gpu.bench.row import inputs_of
from specsim.gpu.launching.mode import launching
from specsim.validation.checking import check_call

OTHER_TREES = [(axis, size) for axis in ("nodes", "topk") for size in AXES[axis]]


def operations_with(axis):
    return {growth.operation for growth in growths_of(axis)}


def test_sizes_reach_as_far_as_engines_go():
    ends = {axis: (sizes[0], sizes[-1]) for axis, sizes in AXES.items()}
    assert ends == {
        "batch": (1, 1024),
        "nodes": (4, 256),
        "topk": (1, 16),
        "vocab": (32_000, 262_144),
        "length": (1024, 131_072),
    }
    assert PROBED.keys() == AXES.keys()


def test_one_size_changes_and_trees_are_as_large_as_beams_allow():
    assert sizes_along("batch", 1024) == EngineSizes(1024)
    assert sizes_along("vocab", 32_000) == EngineSizes(64, vocab=32_000)
    assert sizes_along("nodes", 64) == EngineSizes(64, nodes=64)
    assert sizes_along("nodes", 128) == EngineSizes(64, nodes=128, topk=8)
    assert sizes_along("topk", 1) == EngineSizes(64, topk=1, nodes=6)
    assert sizes_along("topk", 16) == EngineSizes(64, topk=16)
    assert [most_nodes(topk) for topk in (1, 2, 4, 8)] == [6, 19, 69, 265]


def test_a_shape_names_every_size_that_is_not_as_usual():
    assert shape_of(EngineSizes(64, vocab=32_000, length=1024), "k 50") == "64 requests, V 32,000, length 1,024, k 50"
    assert shape_of(sizes_along("nodes", 128), "k 50") == "64 requests, 128 nodes, topk 8, k 50"


def test_every_row_grows_with_the_batch():
    assert [has_axis(row, "batch") for row in ROWS] == [True] * len(ROWS)


@pytest.mark.parametrize(
    ("axis", "some", "others"),
    [
        ("nodes", ("build_tree", "verify_tree_greedy", "tree_attention"), ("fill_bonus_tokens", "fast_topk")),
        ("topk", ("select_top_k_tokens", "build_tree"), ("verify_tree_greedy", "tree_attention", "target_forward")),
        ("vocab", ("fast_topk", "top_k_renorm"), ("build_tree", "prepare_block_draft", "hash_target_logits")),
        ("length", ("tree_attention", "target_verify_metadata"), ("verify_tree_greedy", "top_k_renorm")),
    ],
)
def test_operations_grow_with_what_their_inputs_have(axis, some, others):
    found = operations_with(axis)
    assert found >= {*some}
    assert not found & {*others}


@pytest.mark.parametrize("axis", AXES)
def test_whether_an_axis_is_there_does_not_depend_on_what_is_drawn(axis, monkeypatch):
    found = operations_with(axis)
    seeds = iter(range(1, 1000))
    monkeypatch.setattr(torch, "manual_seed", lambda seed, seeded=torch.manual_seed: seeded(next(seeds)))
    assert operations_with(axis) == found


@pytest.mark.parametrize(("axis", "size"), OTHER_TREES)
def test_inputs_of_all_trees_are_in_the_domain(axis, size):
    trees = sizes_along(axis, size)
    sizes = replace(PROBE, length=70, vocab=17_000, nodes=trees.nodes, topk=trees.topk, agreement=0.7)
    for row in ROWS:
        torch.manual_seed(1)
        check_call(row.operation, on_host(inputs_of(row, sizes)))


def test_what_several_axes_share_is_timed_once():
    growths = [*growths_of("batch", ["build_tree"]), *growths_of("nodes", ["build_tree", "compact_accepted_to_front"])]
    works = works_along(growths)
    shapes = [work.shape for work in works if work.operation == "build_tree"]
    assert len(shapes) == len({*shapes}) == len(AXES["batch"]) + len(AXES["nodes"]) - 1
    assert [growth.shapes[growth.sizes.index(16)] for growth in growths[1:]] == [
        "64 requests",
        "64 requests, hidden states",
    ]
    names = [work.operation for work in works]
    assert names == sorted(names, key=names.index)
    for growth in growths:
        assert {(growth.operation, shape) for shape in growth.shapes} <= {(one.operation, one.shape) for one in works}


def test_what_is_timed_has_the_sizes_that_its_shape_names():
    (growth,) = growths_of("vocab", ["top_k_renorm"])
    for work, size in zip(works_along([growth]), growth.sizes, strict=True):
        assert f"V {size:,}" in work.shape or size == EngineSizes(1).vocab
        with launching(runs=False):
            one = replace(
                work, build=lambda build=work.build: build.func(build.args[0], replace(build.args[1], batch=1))
            )
            assert one.first_inputs()["probabilities"].shape == (16, size)
