import pytest

from specsim.gpu.bench import every, targets
from specsim.gpu.bench.decode import StillModel, config_of, started
from specsim.gpu.bench.every import Machine, Timed, Unmeasured
from specsim.gpu.bench.growth import sizes_along
from specsim.gpu.bench.targets import TARGETS, Compared, measure_targets
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import launching
from specsim.gpu.models import load_model
from specsim.operations import RECORDS
from specsim.simulation.models.hash_model import HashModel

LIGHT = (
    ("chain_speculative_sampling", "1 x 5 drafts, V 128,256"),
    ("target_probabilities", "16 rows, temperature alone"),
    ("top_k_renorm", "16 rows, k 50"),
    ("top_p_renorm", "16 rows, p 0.95"),
    ("verify_tree_greedy_from_logits", "1 x 16, bf16"),
    ("verify_tree_sampled_from_logits", "1 x 16, bf16, top-p 0.95 alone, flat rows"),
    ("verify_tree_greedy", "1 x 16"),
)
"""Targets whose inputs are soon drawn without a GPU."""


def test_targets_have_names_of_their_own_and_a_time():
    names = [(one.operation, one.shape) for one in TARGETS]
    assert len(set(names)) == len(names) == 42
    assert {one.operation for one in TARGETS} <= RECORDS.keys()
    assert all(one.target_us > 0 for one in TARGETS)


@pytest.mark.parametrize(("operation", "shape"), LIGHT)
def test_inputs_of_a_target_have_their_form(operation, shape):
    (target,) = [one for one in TARGETS if (one.operation, one.shape) == (operation, shape)]
    arguments = {**RECORDS[operation].contract.defaults, **target.build()}
    with launching(runs=False):
        prepare(operation, arguments)


def test_every_target_and_the_iteration_have_a_row(monkeypatch):
    def measure(work, machine, peer):
        if work.operation == "move_kv_cache":
            raise RuntimeError("out of memory")
        return Timed(work.operation, work.shape, 10.0, 9.0, 11.0, 2.5, 100, 3, 1, peer_us=25.0)

    iteration = Compared("decode iteration", "64 requests", 45.0, 90.0, 80.0, 99.0, None, 70, 35)
    monkeypatch.setattr(every, "measure", measure)
    monkeypatch.setattr(targets, "_measure_iteration", lambda batch: [iteration])
    *rows, last = measure_targets(Machine())
    assert [(row.operation, row.shape) for row in rows] == [(one.operation, one.shape) for one in TARGETS]
    assert last is iteration
    assert rows[0] == Compared(TARGETS[0].operation, TARGETS[0].shape, 9.0, 10.0, 9.0, 11.0, 2.5, 3, None, 25.0)
    assert (rows[0].times_target, rows[0].share_of_floor, rows[0].peer_times_ours) == (10.0 / 9.0, 0.25, 2.5)
    assert [row.operation for row in rows if isinstance(row, Unmeasured)] == ["move_kv_cache"] * 2


def kernels_of(launch):
    seen: list[Launch] = []
    with launching(seen.append):
        launch()
    return [one.plan.kernel.__name__ for one in seen]


def test_an_iteration_of_a_still_model_has_everything_but_its_forwards():
    model = StillModel(load_model(HashModel(64)))
    launch, rewind = started(model, config_of(2, 8), 2, use_graphs=False)
    moving = kernels_of(launch)
    rewind()
    model.is_still = True
    still = kernels_of(launch)
    assert "_fold_pages_kernel" in moving
    assert not {"_fold_pages_kernel", "_fold_rows_kernel", "_advance_kernel"} & set(still)
    assert [name for name in moving if name in set(still)] == still


@pytest.mark.parametrize(
    "sizes", [sizes_along(axis, size) for axis, size in (("nodes", 4), ("topk", 1), ("nodes", 256))]
)
def test_an_iteration_runs_with_other_trees(sizes):
    config = config_of(sizes.topk, sizes.nodes)
    launch, rewind = started(load_model(HashModel(64)), config, 2, use_graphs=False)
    first = kernels_of(launch)
    rewind()
    assert first == kernels_of(launch) != []
