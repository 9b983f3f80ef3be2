"""Faults of sampled verify and of blocks inside of a worker, where no operation has them: whole runs show them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.conformance.backend import EAGLE_V1, EAGLE_V2, load
from specsim.host.acceptance import Acceptance
from specsim.properties.mutants.record import Function, Mutant, mutants_of_loops, with_arguments
from specsim.properties.operations.acceptance import faults_chain_blocks as chain_blocks
from specsim.properties.operations.sampled_verify import faults as sampled_verify
from specsim.simulation.worker import Worker

_DRAW, _BLOCK, _LOOPS = "sample_target_predict", "chain_block_verification", (EAGLE_V1, EAGLE_V2)


def _calling(name: str, fault: Callable[[Function], Function]) -> Callable[[Any], Callable[..., Worker]]:
    """Inject a faulty operation that a loop calls."""

    def inject(loop: Any) -> Callable[..., Worker]:
        backend = load("specsim.reference")
        return partial(loop, operations=backend.with_function(name, fault(backend.functions[name]), "faulty"))

    return inject


def _also_in_workers(first: int, mutants: tuple[Mutant, ...], *numbers: int) -> tuple[Mutant, ...]:
    """Return mutants of workers, numbered on from the first, that have the faults of mutants of operations."""
    known = {mutant.id: mutant for mutant in mutants}
    found: list[Mutant] = []
    for place, one in enumerate((known[f"OWN-{number}"] for number in numbers), first):
        fault = f"OWN-{place}", f"Workers alone: {one.summary}", _calling(one.operation, one.inject)
        found += mutants_of_loops(one.operation, _LOOPS, [fault])
    return tuple(found)


def _first_columns(positions: Array) -> Array:
    return np.repeat(positions[:, :1], positions.shape[1], axis=1)


def _number_of_the_call() -> Callable[[Function], Function]:
    calls = iter(range(2**20))
    return with_arguments(positions=lambda positions: positions + 64 * next(calls))


def _token_by_token(loop: Any) -> Callable[..., Worker]:
    """Inject the judgement of drafts one by one in V1, whatever rule it is given."""

    def build(*given: Any, acceptance: str = Acceptance.TOKEN, **named: Any) -> Worker:
        worker: Worker = loop(*given, acceptance=Acceptance.TOKEN if loop.is_v1 else acceptance, **named)
        return worker

    return build


MUTANTS = (
    *_also_in_workers(4360, sampled_verify.MUTANTS, 4200, 4201, 4202, 4203, 4204, 4205, 4206, 4207, 4208, 4210, 4214),
    *mutants_of_loops(_DRAW, _LOOPS, (
        ("OWN-4371", "Every node has the position of its root.",
         _calling(_DRAW, with_arguments(positions=_first_columns))),
        ("OWN-4372", "The key has the number of the step.", _calling(_DRAW, _number_of_the_call())),
    )),
    *_also_in_workers(4373, chain_blocks.MUTANTS, 4300, 4301, 4311, 4316, 4317, 4318),
    *mutants_of_loops(_BLOCK, _LOOPS, (
        ("OWN-4379", "The rows of a chain begin after its first draft.",
         _calling(_BLOCK, with_arguments(target_probs=lambda rows: np.roll(rows, -1, axis=0)))),
        ("OWN-4380", "Coins of blocks follow the row of the batch.",
         _calling("generate_coins", with_arguments(seeds=lambda seeds: np.arange(len(seeds), dtype=np.int64)))),
        ("OWN-4381", "V1 judges the drafts of a block one by one.", _token_by_token),
    )),
)  # fmt: skip
