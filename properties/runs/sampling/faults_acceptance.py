"""Faults of sampled verify and of blocks inside of a worker, where no operation has them: whole runs show them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from specsim.conformance.backend import load
from specsim.host.acceptance import Acceptance
from specsim.properties.mutants.record import Function, Mutant, Named, given, unchanged
from specsim.properties.operations.acceptance import faults_chain_blocks as chain_blocks
from specsim.properties.operations.sampled_verify import faults as sampled_verify
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.worker import Worker

Faults = Mapping[str, Callable[[Function], Function]]
"""What is injected into each operation that a worker calls."""

_DRAW, _WALK, _BLOCK = "sample_target_predict", "verify_tree_greedy", "chain_block_verification"


def _worker(loop: type, faults: Faults, config: Any, model: Any, sizes: Any, acceptance: str = "token") -> Worker:
    """Return a loop on faulty operations."""
    backend = load("specsim.reference")
    for name, inject in faults.items():
        backend = backend.with_function(name, inject(backend.functions[name]), "faulty")
    worker: Worker = loop(config, model, sizes, backend, acceptance=acceptance)
    return worker


def _in_workers(number: str, operation: str, summary: str, **faults: Callable[[Function], Function]) -> Mutant:
    """Return the mutant whose workers, of either kind, call faulty operations."""
    v1, v2 = (partial(_worker, loop, faults) for loop in (ReferenceWorkerV1, ReferenceWorker))
    return Mutant(number, operation, summary, unchanged, worker=v2, worker_v1=v1)


def _also_in_workers(first: int, mutants: tuple[Mutant, ...], *numbers: str) -> tuple[Mutant, ...]:
    """Return mutants of workers, numbered on from the first, that have the faults of mutants of operations."""
    known = {mutant.id: mutant for mutant in mutants}
    chosen = [known[number] for number in numbers]
    return tuple(
        _in_workers(f"OWN-{place}", one.operation, f"Workers alone: {one.summary}", **{one.operation: one.inject})
        for place, one in enumerate(chosen, first)
    )


def _positions_of_the_root(arguments: Named) -> None:
    arguments["positions"] = np.repeat(arguments["positions"][:, :1], arguments["positions"].shape[1], axis=1)


def _number_of_the_call() -> Callable[[Function], Function]:
    calls = iter(range(2**20))

    def change(arguments: Named) -> None:
        arguments["positions"] = arguments["positions"] + 64 * next(calls)

    return given(change)


def _rows_of_the_drafts(arguments: Named) -> None:
    arguments["target_probs"] = np.roll(arguments["target_probs"], -1, axis=0)


def _coins_of_the_batch_row(arguments: Named) -> None:
    arguments["seeds"] = np.arange(len(arguments["seeds"]), dtype=np.int64)


class _TokenByToken(ReferenceWorkerV1):
    """A worker of V1 that judges drafts one by one, whatever rule it is given."""

    def __init__(self, config: Any, model: Any, sizes: Any, acceptance: str = "token") -> None:
        super().__init__(config, model, sizes, acceptance=Acceptance.TOKEN)


MUTANTS = (
    *_also_in_workers(
        4360,
        sampled_verify.MUTANTS,
        "OWN-4200",
        "OWN-4201",
        "OWN-4202",
        "OWN-4203",
        "OWN-4204",
        "OWN-4205",
        "OWN-4206",
        "OWN-4207",
        "OWN-4208",
        "OWN-4210",
        "OWN-4214",
    ),
    _in_workers(
        "OWN-4371", _DRAW, "Every node has the position of its root.", **{_DRAW: given(_positions_of_the_root)}
    ),
    _in_workers("OWN-4372", _DRAW, "The key has the number of the step.", **{_DRAW: _number_of_the_call()}),
    *_also_in_workers(
        4373,
        chain_blocks.MUTANTS,
        "OWN-4300",
        "OWN-4301",
        "OWN-4311",
        "OWN-4316",
        "OWN-4317",
        "OWN-4318",
    ),
    _in_workers(
        "OWN-4379", _BLOCK, "The rows of a chain begin after its first draft.", **{_BLOCK: given(_rows_of_the_drafts)}
    ),
    _in_workers(
        "OWN-4380",
        _BLOCK,
        "Coins of blocks follow the row of the batch.",
        generate_coins=given(_coins_of_the_batch_row),
    ),
    Mutant(
        "OWN-4381",
        _BLOCK,
        "V1 judges the drafts of a block one by one.",
        unchanged,
        worker=ReferenceWorker,
        worker_v1=_TokenByToken,
    ),
)
