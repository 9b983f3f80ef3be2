"""The worker of the GPU layer is recorded while it runs, as it is and with a planted fault, and replayed."""

import json

import torch

from specsim import gpu, reference
from specsim.config import SpecConfig
from specsim.conformance.recording.session import record
from specsim.gpu.arrays import from_numpy, to_numpy
from specsim.gpu.models import load_model
from specsim.gpu.worker.v2 import GpuWorker
from specsim.operations import RECORDS
from specsim.operations.derived.signature import name_arguments
from specsim.properties.operations.verify.faults import MUTANTS
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

OF_AN_ITERATION = {
    "argmax_target_predict",
    "assign_extend_cache_locs",
    "draft_extend_forward",
    "move_kv_cache",
    "select_top_k_tokens",
    "target_forward",
    "verify_tree_greedy",
}
"""Operations that an iteration calls; those that it fuses with others into one launch are not calls of the module."""


def run_worker():
    """Prefill two requests and decode once, through the call sites of the worker and of its model."""
    config = SpecConfig(topk=2, num_steps=2, num_draft_tokens=4)
    requests = [Request(number, [number, 7, 3], 12) for number in range(2)]
    sizes = sizes_for(config, requests, 2)
    engine = Engine(GpuWorker(config, load_model(HashModel(64, 1, 0.9)), sizes, use_graphs=False), 2)
    for request in requests:
        engine.submit(request)
    for _ in range(2):
        engine.step()


def on_tensors(operation, function):
    """Return a function of NumPy arrays as one of tensors."""

    def call(*positional, **named):
        arguments = name_arguments(RECORDS[operation], positional, named)
        carried = {
            name: to_numpy(value) if isinstance(value, torch.Tensor) else value for name, value in arguments.items()
        }
        return tuple(map(from_numpy, function(**carried)))

    return call


def test_all_that_the_worker_calls_is_recorded_and_agrees(specsim, tmp_path):
    with record(tmp_path / "calls", "specsim.gpu", limit=3) as recording:
        run_worker()
    assert recording.tallies.keys() >= OF_AN_ITERATION
    assert all(tally.calls and not tally.not_understood for tally in recording.tallies.values())
    got = specsim("replay", "calls", "--observed", "--json")
    assert got.exit_code == 0, got.stdout
    cases = json.loads(got.stdout)["cases"]
    assert {case["operation"] for case in cases} == recording.tallies.keys()
    assert len(cases) == sum(min(3, tally.calls) for tally in recording.tallies.values())


def test_a_fault_in_one_operation_of_the_worker_is_contradicted_there_alone(specsim, tmp_path, monkeypatch):
    mutant = next(one for one in MUTANTS if one.id == "OWN-54")
    faulty = mutant.inject(vars(reference)[mutant.operation])
    monkeypatch.setattr(gpu, mutant.operation, on_tensors(mutant.operation, faulty))
    with record(tmp_path / "calls", "specsim.gpu", limit=6):
        run_worker()
    got = specsim("replay", "calls", "--observed", "--json")
    assert got.exit_code == 1
    cases = [case for case in json.loads(got.stdout)["cases"] if case["outcome"] != "AGREES"]
    assert {case["operation"] for case in cases} == {"verify_tree_greedy"}
    assert all(case["difference"].startswith("predict[") for case in cases)
