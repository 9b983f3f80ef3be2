import sys
import types
from dataclasses import replace

import numpy as np
import pytest

from specsim.algorithms import WORKERS
from specsim.conformance.backend import Backend, BackendUnavailable, load
from specsim.conformance.catalogue import Kind, names_of
from specsim.conformance.limits import BadLimits
from specsim.operations import RECORDS
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.loops import loop_of


@pytest.fixture
def module():
    module = types.ModuleType("borrowed_kernels")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def move_arguments():
    pool = np.arange(4, dtype=np.int64)
    return {"kv_buffers": [pool], "target_slots": np.array([1]), "source_slots": np.array([2])}


def test_the_reference_defines_every_operation():
    assert list(load("specsim.reference").functions) == [*RECORDS, *names_of(Kind.HOST_FUNCTION, Kind.PART)]


def test_a_module_may_define_one_operation(module):
    module.fill_bonus_tokens = lambda accept_tokens, num_accepted_tokens: accept_tokens[:, 0]
    module.not_an_operation = len
    backend = load(module.__name__)
    assert list(backend.functions) == ["fill_bonus_tokens"]
    assert backend.has("fill_bonus_tokens") and not backend.has("build_tree")
    with pytest.raises(NotImplementedError, match=r"borrowed_kernels does not define build_tree; .* tree\.py"):
        backend.call("build_tree")


def test_a_module_may_list_what_it_has_and_does_not_implement(module):
    module.fill_bonus_tokens = module.fast_topk_out = module.build_tree = module.find_stop = lambda **_: None
    module.verify_tree_greedy = None
    module.MISSING = ["build_tree", "fast_topk", "find_stop"]
    assert list(load(module.__name__).functions) == ["fill_bonus_tokens"]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("build_tree", "is 'build_tree', but should list names of functions"),
        (7, "is 7, but should list names of functions"),
        (["build_tre"], "has 'build_tre', but should have names of the catalogue; did you mean build_tree?"),
        ([["build_tree"]], "has ['build_tree'], but should have names of the catalogue"),
    ],
)
def test_a_list_of_what_is_missing_has_names(module, listed, message):
    module.MISSING = listed
    with pytest.raises(BadLimits) as refused:
        load(module.__name__)
    assert str(refused.value).startswith(f"borrowed_kernels.MISSING {message}")


def test_a_module_of_its_own_host_functions_takes_the_others_from_where_it_says(module):
    module.HOST = "specsim.reference"
    module.drafts_per_round = lambda num_draft_tokens, num_steps: 7
    assert load(module.__name__).functions == {"drafts_per_round": module.drafts_per_round}
    module.HOST = "specsim.conformance.catalogue"
    backend = load(module.__name__)
    assert list(backend.functions) == list(names_of(Kind.HOST_FUNCTION))
    assert backend.drafts_per_round(4, 3) == 7
    assert (
        backend.find_stop is not None and backend.functions["find_stop"] is load("specsim.gpu").functions["find_stop"]
    )


def test_workers_of_any_algorithm_are_found_by_their_names(module):
    home = "specsim.reference.worker"
    module.WORKERS = {"eagle_v2": f"{home}.v2.ReferenceWorker", "ngram": f"{home}.v1.ReferenceWorkerV1"}
    backend = load(module.__name__)
    assert backend.workers == {"eagle_v2": ReferenceWorker, "ngram": ReferenceWorkerV1}
    assert (backend.worker, backend.worker_v1) == (ReferenceWorker, None)
    module.WORKER_V1 = f"{home}.v1.ReferenceWorkerV1"
    assert set(load(module.__name__).workers) == {"eagle_v1", "eagle_v2", "ngram"}
    assert backend.with_function("fast_topk", len, "faulty").workers == {}


def test_the_loops_of_the_reference_are_no_workers_of_its_own():
    assert load("specsim.reference").workers == {}
    assert set(load("specsim.gpu").workers) <= set(WORKERS)
    assert loop_of("ngram") is loop_of("ngram")
    assert (loop_of("ngram").func, loop_of("ngram_v2").func) == (ReferenceWorkerV1, ReferenceWorker)
    with pytest.raises(NotImplementedError, match=r"specsim\.reference has no worker nothing; it has .*eagle_v1, "):
        loop_of("nothing")


def test_a_module_that_does_not_import():
    with pytest.raises(BackendUnavailable, match="no_such_module does not import: ModuleNotFoundError"):
        load("no_such_module")


def test_a_worker_is_a_class_or_its_name(module):
    module.WORKER = Backend
    module.WORKERS = {"ngram": f"{Backend.__module__}.Backend"}
    loaded = load(module.__name__)
    assert (loaded.worker, loaded.other_workers) == (Backend, {"ngram": Backend})
    module.WORKERS = {"ngram": "Backend"}
    expected = r"""WORKERS\['ngram'\] is 'Backend', but should be a class or its name, "package.module.Class"$"""
    with pytest.raises(BackendUnavailable, match=expected):
        load(module.__name__)


def test_unknown_arrays_are_refused(module):
    module.ARRAYS = "cupy"
    with pytest.raises(BackendUnavailable, match=r"ARRAYS is 'cupy', but should be one of \['numpy', 'torch'\]"):
        load(module.__name__)


def test_call_writes_back_in_place():
    arguments = move_arguments()
    assert load("specsim.reference").call("move_kv_cache", **arguments) is None
    assert arguments["kv_buffers"][0].tolist() == [0, 2, 2, 3]


def test_run_works_on_copies():
    arguments = move_arguments()
    outcome = load("specsim.reference").run("move_kv_cache", arguments)
    assert arguments["kv_buffers"][0].tolist() == [0, 1, 2, 3]
    assert outcome.outputs["kv_buffers"][0].tolist() == [0, 2, 2, 3]
    assert outcome.arguments["kv_buffers"][0].tolist() == [0, 2, 2, 3]


def test_run_keeps_strides(module):
    seen = {}
    module.map_hot_tokens = lambda topk_index, hot_token_id: seen.update(strides=topk_index.strides) or topk_index
    wide = np.zeros((2, 6), dtype=np.int64)[:, ::2]
    load(module.__name__).run("map_hot_tokens", {"topk_index": wide, "hot_token_id": np.zeros(3, dtype=np.int64)})
    assert seen["strides"] == wide.strides


def test_a_wrong_number_of_outputs_is_a_broken_law(module):
    module.fast_topk = lambda values, k: values
    with pytest.raises(AssertionError, match="fast_topk returned 1 arrays, but should return 2"):
        load(module.__name__).call("fast_topk", values=np.zeros((1, 2), dtype=np.float32), k=1)


def test_one_function_can_be_replaced():
    oracle = load("specsim.reference")
    faulty = oracle.with_function(
        "fill_bonus_tokens", lambda accept_tokens, num_accepted_tokens: accept_tokens[:, 0], "m"
    )
    arguments = {
        "accept_tokens": np.array([[5, 6]], dtype=np.int32),
        "num_accepted_tokens": np.array([2], dtype=np.int32),
    }
    assert faulty.name == "m"
    assert faulty.call("fill_bonus_tokens", **arguments).tolist() == [5]
    assert oracle.call("fill_bonus_tokens", **arguments).tolist() == [6]


def test_an_output_that_hides_its_entries_is_no_array():
    reference = load("specsim.reference")

    def fill_bonus_tokens(**arguments):
        return np.ma.masked_array(reference.functions["fill_bonus_tokens"](**arguments), mask=True)

    backend = replace(reference, functions={"fill_bonus_tokens": fill_bonus_tokens})
    arguments = {"accept_tokens": np.array([[3, 4]], np.int32), "num_accepted_tokens": np.array([2], np.int32)}
    for call in (lambda: backend.fill_bonus_tokens(**arguments), lambda: backend.run("fill_bonus_tokens", arguments)):
        with pytest.raises(TypeError, match="its mask hides entries"):
            call()
