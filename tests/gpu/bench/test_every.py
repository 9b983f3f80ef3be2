from dataclasses import replace

import pytest
import torch

from specsim.conformance.backend import load
from specsim.conformance.outcomes import first_difference, observe
from specsim.gpu.arrays import to_numpy
from specsim.gpu.bench.every import Machine, Timed, call_once, rows_of
from specsim.gpu.bench.iteration import EngineSizes
from specsim.gpu.bench.needed import necessary_bytes
from specsim.gpu.bench.rows import ROWS, inputs_of
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.launching.mode import launching
from specsim.operations import RECORDS

REFERENCE, GPU = load("specsim.reference"), load("specsim.gpu")
SMALL = EngineSizes(
    batch=2,
    vocab=2500,
    draft_vocab=300,
    hidden=16,
    num_layers=2,
    length=70,
    kv_entry=(2, 8),
    state=(2, 8),
    state_layers=2,
)
NAMES = [f"{row.operation} {row.kind}".strip() for row in ROWS]
every_row = pytest.mark.parametrize("name", NAMES)


def row_named(name):
    return ROWS[NAMES.index(name)]


def drawn(name, sizes):
    torch.manual_seed(1)
    return inputs_of(row_named(name), sizes)


def on_host(value):
    if isinstance(value, list | tuple):
        return [on_host(one) for one in value]
    return to_numpy(value) if isinstance(value, torch.Tensor) else value


def num_bytes(value):
    tensors = value if isinstance(value, list | tuple) else [value]
    return sum(one.nbytes for one in tensors if isinstance(one, torch.Tensor))


def test_every_operation_has_a_row():
    assert {row.operation for row in ROWS} == set(RECORDS)
    assert len(set(NAMES)) == len(NAMES)


@every_row
def test_inputs_are_in_the_domain_and_both_layers_agree_on_them(name):
    operation = row_named(name).operation
    arguments = {key: on_host(value) for key, value in drawn(name, SMALL).items()}
    expected = observe(REFERENCE, operation, arguments)
    assert (expected.rejection, expected.error) == ("", "")
    assert first_difference(operation, arguments, expected, observe(GPU, operation, arguments)) is None


@every_row
def test_inputs_of_one_request_at_production_sizes_have_their_form(name):
    with launching(runs=False):
        prepare(row_named(name).operation, drawn(name, EngineSizes(1)))


@every_row
def test_what_is_needed_is_at_most_all_of_it(name):
    row, arguments = row_named(name), drawn(name, SMALL)
    contract = RECORDS[row.operation].contract
    assert set(contract.writes) <= set(row.needed) <= contract.by_name.keys()
    everything = {key: num_bytes(value) for key, value in arguments.items()}
    with launching(runs=False):
        call = prepare(row.operation, arguments)
    outputs = call.outputs if len(contract.outputs) > 1 else [call.outputs]
    most = sum(everything.values()) + sum(everything[key] for key in contract.writes) + sum(map(num_bytes, outputs))
    needed, launches = call_once(row, arguments)
    assert 0 < needed <= most
    assert launches >= 1
