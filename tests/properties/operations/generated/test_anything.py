"""Calls of anything: many of them in a fixed order, and planted faults that the property must find."""

from random import Random

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.operations import RECORDS
from specsim.properties.operations.generated.anything import anything_properties, returns_or_is_refused
from specsim.properties.operations.generated.faults import MUTANTS
from specsim.properties.strategies.malformed.anything import MOST_CHOICES, MutatedCall, in_words
from specsim.properties.strategies.malformed.choices import Choices
from specsim.properties.strategies.malformed.mutations import MUTATIONS
from specsim.properties.suite.conformance.running import run_property
from specsim.rejection import Reason, SpecRejection
from tests.properties.strategies.drawn import valid_calls

ORACLE = load("specsim.reference")
PROPERTIES = {one.name: one for one in anything_properties()}
MUTANT = {mutant.id: mutant for mutant in MUTANTS}


def mutated_calls(operation, count, num_valid):
    """Return the same mutated calls every time."""
    random = Random(operation)
    valid = valid_calls(operation, num_valid)
    return [MutatedCall(operation, random.choice(valid), numbers_of(random)) for _ in range(count)]


def numbers_of(random):
    return tuple(random.randrange(2**16) for _ in range(MOST_CHOICES))


@pytest.mark.slow
@pytest.mark.first
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("implementation", "num_calls", "num_valid"), [("specsim.reference", 4_000, 20), ("specsim.gpu", 600, 12)]
)
def test_every_mutated_call_returns_or_is_refused(implementation, num_calls, num_valid):
    backend = load(implementation)
    found = []
    done = 0
    for operation in RECORDS:
        for call in mutated_calls(operation, -(-num_calls // len(RECORDS)), num_valid):
            done += 1
            try:
                returns_or_is_refused(operation, backend, call)
            except AssertionError as fault:
                found.append(str(fault))
    assert done >= num_calls
    assert not found, f"{len(found)} of {done} calls end in something else, for example: {found[:3]}"


def verdict_on(function, operation, prefix="anything", examples=200):
    broken = ORACLE.with_function(operation, function, "planted")
    _, failure = run_property(PROPERTIES[f"{prefix}.{operation}"], broken, 0, examples, is_shrunk=False)
    return "" if failure is None else failure.message


def test_another_error_is_found():
    mutant = MUTANT["CRASH-move_kv_cache"]
    message = verdict_on(mutant.inject(ORACLE.functions["move_kv_cache"]), "move_kv_cache")
    assert "ValueError: not what a caller expects, but should be an answer or a rejection" in message


def test_a_write_before_the_refusal_is_found():
    def writes_first(kv_buffers, target_slots, source_slots):
        try:
            for buffer in kv_buffers:
                buffer[:] = 1
        except (TypeError, ValueError):
            pass
        return ORACLE.functions["move_kv_cache"](kv_buffers, target_slots, source_slots)

    assert "kv_buffers = changed, but should be as before" in verdict_on(writes_first, "move_kv_cache")


@pytest.mark.parametrize("operation", ["fast_topk", "compact_accepted_to_front", "remap_accepted_slots"])
def test_an_output_in_the_memory_of_an_argument_is_found(operation):
    mutant = MUTANT[f"ALIAS-{operation}"]
    message = verdict_on(mutant.inject(ORACLE.functions[operation]), operation, "apart")
    assert "but should be in memory of its own" in message


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_mutation_makes_calls_that_are_refused(name):
    """Unless all of what it makes is valid: another layout of the same values."""
    random = Random(name)
    refused = 0
    for arguments in valid_calls("move_kv_cache", 40):
        try:
            choices = Choices(numbers_of(random))
            ORACLE.functions["move_kv_cache"](**MUTATIONS[name](RECORDS["move_kv_cache"].contract, arguments, choices))
        except SpecRejection:
            refused += 1
    has_scalars = bool(RECORDS["move_kv_cache"].contract.scalars)
    assert (refused > 0) == (name != "layout" and (name != "scalar" or has_scalars))


@pytest.mark.filterwarnings("ignore")
def test_every_reason_of_a_wrong_kind_is_reached():
    reached = set()
    # NOTE: an output that is too large takes a scalar that is, which one call of assign_extend_cache_locs in 300 has.
    for operation, count in (("move_kv_cache", 500), ("assign_extend_cache_locs", 5_000), ("build_tree", 500)):
        for call in mutated_calls(operation, count, 20):
            try:
                ORACLE.functions[operation](**call.arguments())
            except SpecRejection as rejection:
                reached.add(rejection.reason)
    wanted = {Reason.WRONG_KIND, Reason.READ_ONLY, Reason.SHARED_MEMORY, Reason.OUTPUT_TOO_LARGE, Reason.WRONG_DTYPE}
    assert wanted <= reached


def test_a_call_is_reported_in_one_line():
    valid = {"values": np.zeros((1, 2), np.float32), "k": 1}
    scalar = list(MUTATIONS).index("scalar")
    assert (
        str(MutatedCall("fast_topk", valid, (0, scalar, 0, 1)))
        == "fast_topk(values=float32 [1, 2] [[0.0, 0.0]], k=int 0)"
    )
    assert in_words(np.matrix([[1, 2]])) == "matrix int64 [1, 2] [[1, 2]]"
    assert in_words([np.zeros(9, np.int8), None]) == "list of 2: [int8 [9], NoneType None]"
    assert in_words("text") == "str text"
