"""The operators in torch's library: schemas, what a trace is given, what compiled code returns, and what is refused."""

from dataclasses import replace

import pytest
import torch

from specsim import Reason, SpecRejection, gpu
from specsim.contracts.contract import Unit, array
from specsim.gpu import exports
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching import library
from specsim.gpu.launching.records import FUSED
from specsim.operations import RECORDS
from tests.gpu.launching.inside_torch import (
    arguments_of,
    check_operator,
    compile_iteration,
    compile_operator,
    compiled_by,
)

PLANTED = torch.library.Library("specsim_planted", "FRAGMENT")
OPERATORS = torch.ops.specsim


def tensor(*rows, dtype=torch.int64):
    return torch.tensor(rows, dtype=dtype, device=DEVICE)


def ranges():
    """Return a call that writes the slots 5 and 6 to the first row and 7 and 8 to the second."""
    return {
        "req_pool_indices": tensor(0, 1),
        "req_to_token": torch.zeros((2, 8), dtype=torch.int32, device=DEVICE),
        "start_offsets": tensor(0, 0),
        "end_offsets": tensor(2, 2),
        "out_cache_loc": tensor(5, 6, 7, 8),
    }


@pytest.fixture
def planted(monkeypatch):
    """Return a function that registers a function under a record that need not be true of it."""

    def plant(name, function, record, **changed):
        contract = replace(RECORDS[record].contract, **changed)
        monkeypatch.setitem(FUSED, name, replace(RECORDS[record], name=name, contract=contract))
        library.register({name: function}, PLANTED)
        return getattr(torch.ops.specsim_planted, name).default

    return plant


@pytest.mark.parametrize("name", exports.__all__)
def test_opcheck_passes(name):
    assert check_operator(getattr(OPERATORS, name).default, arguments_of(name)) == {}


def test_every_operation_is_an_operator_because_arguments_state_all_its_sizes():
    assert library.NOT_REGISTERED == {}
    assert [name for name in RECORDS if hasattr(OPERATORS, name)] == exports.__all__


def test_a_size_that_no_argument_states_is_a_reason_against():
    record = RECORDS["map_hot_tokens"]
    found = array("found", "int64 [found, row]", Unit.SLOT)
    contract = replace(record.contract, outputs=(found,))
    assert library.reasons_against({"find": replace(record, contract=contract), "map_hot_tokens": record}) == {
        "find": "no argument states found"
    }
    derived = replace(contract, derived=(("found", "row*column"),))
    assert library.reasons_against({"find": replace(record, contract=derived)}) == {}


def test_a_schema_reads_as_the_record():
    for name, record in RECORDS.items():
        schema, contract = getattr(OPERATORS, name).default._schema, record.contract
        assert str(schema) == f"specsim::{name}{library.schema_of(record)}"
        assert tuple(one.name for one in schema.arguments) == contract.names
        written = [one.name for one in schema.arguments if one.alias_info is not None and one.alias_info.is_write]
        assert sorted(written) == sorted(contract.writes)
        kinds = {one.name: str(one.type) for one in schema.arguments}
        assert {key: "Optional" in kind for key, kind in kinds.items()} == {
            spec.name: getattr(spec, "optional", False) for spec in contract.parameters
        }
        assert [key for key, kind in kinds.items() if "List" in kind] == [
            spec.name for spec in contract.arrays if spec.each is not None
        ]
        assert [one.name for one in schema.returns] == [spec.name for spec in contract.outputs]


def test_a_schema_has_defaults_written_arguments_lists_and_truth_values():
    assert library.schema_of(RECORDS["commit_recurrent_states"]) == (
        "(Tensor(a!)[] state_buffers, Tensor[] step_buffers, Tensor state_slots, Tensor commit_step,"
        " Tensor snapshot_slots, Tensor snapshot_step) -> ()"
    )
    assert library.schema_of(RECORDS["cap_accepted_drafts"]) == (
        "(Tensor candidates, Tensor num_accepted_drafts, Tensor bonus_tokens, Tensor verify_lens,"
        " bool is_compact=False) -> (Tensor num_kept_drafts, Tensor cut_tokens, Tensor cap_trim_lens)"
    )
    assert library.schema_of(RECORDS["schedule_verify_lens"]) == (
        "(Tensor confidence, Tensor? num_drafts, Tensor? survival_eps, SymInt verify_token_budget,"
        " SymInt max_verify_len, SymInt min_verify_len=1) -> Tensor verify_lens"
    )


def test_an_iteration_compiles_without_a_break():
    compile_iteration("aot_eager", (3,))


def test_an_iteration_compiles_once_for_any_batch():
    compile_iteration("aot_eager", (5, 3, 7))


@pytest.mark.slow
@pytest.mark.first
def test_every_operator_compiles_for_any_batch():
    for name in exports.__all__:
        compile_operator(name, "eager", (5, 3))


def test_compiled_code_reads_what_an_operator_has_written():
    def rows_before_and_after(req_to_token, **given):
        before = req_to_token.sum(dim=1)
        OPERATORS.assign_req_to_token_pool(req_to_token=req_to_token, **given)
        return before, req_to_token.sum(dim=1)

    compiled, num_graphs = compiled_by(rows_before_and_after, "aot_eager")
    given = ranges()
    before, after = compiled(**given)
    assert (before.tolist(), after.tolist(), num_graphs()) == ([0, 0], [11, 15], 1)
    assert given["req_to_token"].tolist() == [[5, 6, *[0] * 6], [7, 8, *[0] * 6]]


@pytest.mark.slow
def test_inductor_copies_no_buffer_that_is_written():
    # NOTE: inductor imports Triton, which must not be before the device is known.
    from torch._inductor.utils import run_and_get_code

    def move(buffers, target_slots, source_slots):
        OPERATORS.move_kv_cache(buffers, target_slots, source_slots)

    torch._dynamo.reset()
    _, (code,) = run_and_get_code(torch.compile(move, fullgraph=True), *arguments_of("move_kv_cache").values())
    body = code.partition("def call(")[2].partition("runner = ")[0]
    assert body.count("torch.ops.specsim.move_kv_cache.default([arg") == 1
    assert not {word for word in ("copy", "clone", "empty") if word in body}


def test_what_is_written_is_a_new_version_of_a_tensor():
    given = ranges()
    with torch.inference_mode():
        without_versions = torch.zeros_like(given["req_to_token"])
    OPERATORS.assign_req_to_token_pool(**given)
    assert (given["req_to_token"]._version, given["out_cache_loc"]._version) == (1, 0)
    OPERATORS.assign_req_to_token_pool(**{**given, "req_to_token": without_versions})
    assert without_versions.tolist() == given["req_to_token"].tolist()


def test_a_count_that_is_an_entry_is_a_size_of_compiled_code(monkeypatch):
    def slots_of(req_pool_indices, req_to_token, start_offsets, end_offsets, out_cache_loc):
        count = (end_offsets - start_offsets).sum().item()
        return OPERATORS.assign_extend_cache_locs(req_pool_indices, req_to_token, start_offsets, end_offsets, count)

    compiled, num_graphs = compiled_by(slots_of, "aot_eager")
    monkeypatch.setattr(torch._dynamo.config, "capture_scalar_outputs", True)
    given = ranges()
    given["req_to_token"] += torch.arange(16, dtype=torch.int32, device=DEVICE).view(2, 8)
    for last, slots in ((2, [0, 1, 8, 9]), (3, [0, 1, 2, 8, 9, 10]), (0, [])):
        given["end_offsets"] = tensor(last, last)
        assert compiled(**given).tolist() == slots
    assert num_graphs() == 1


def test_a_rejection_is_that_of_the_plain_function():
    arguments = {**arguments_of("verify_tree_greedy"), "num_steps": -1}
    with pytest.raises(SpecRejection) as plain:
        gpu.verify_tree_greedy(**arguments)
    with pytest.raises(SpecRejection) as caught:
        OPERATORS.verify_tree_greedy(**arguments)
    assert (caught.value.reason, str(caught.value)) == (Reason.SCALAR_OUT_OF_RANGE, str(plain.value))


def test_a_wrong_size_is_refused_while_code_is_compiled():
    arguments = arguments_of("verify_tree_greedy")
    arguments["target_predict"] = arguments["target_predict"][:, :7]
    with pytest.raises(SpecRejection) as plain:
        gpu.verify_tree_greedy(**arguments)
    compiled, num_graphs = compiled_by(OPERATORS.verify_tree_greedy, "aot_eager")
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError) as caught:
        compiled(**arguments)
    assert str(plain.value) in str(caught.value)
    assert num_graphs() == 0


@pytest.mark.parametrize(
    ("name", "argument"), [("verify_tree_greedy_from_logits", "logits"), ("move_kv_cache", "kv_buffers")]
)
def test_a_gradient_is_refused(name, argument):
    arguments, operator = arguments_of(name), getattr(OPERATORS, name)
    wants = arguments[argument]
    (wants[-1] if isinstance(wants, list) else wants).requires_grad_()
    with pytest.raises(RuntimeError) as caught:
        operator(**arguments)
    assert str(caught.value) == (
        f"{name} has no gradient, but {argument} requires one: call it under torch.no_grad(), or pass"
        f" {argument}.detach()"
    )
    with torch.no_grad():
        operator(**arguments)
    with torch.inference_mode():
        operator(**arguments)


def test_a_wrong_size_of_a_trace_is_found(planted):
    wrong = array("num_accepted_drafts", "int32 [request+1]", Unit.COUNT)
    outputs = (*RECORDS["verify_tree_greedy"].contract.outputs[:2], wrong)
    operator = planted("one_too_many", gpu.verify_tree_greedy, "verify_tree_greedy", outputs=outputs)
    found = check_operator(operator, arguments_of("verify_tree_greedy"))
    assert "mismatch" in found["test_faketensor"].lower()


def test_a_wrong_element_type_of_a_trace_is_found(planted):
    wrong = array("token_index", "int32 [row, column]", Unit.TOKEN)
    operator = planted("other_type", gpu.map_hot_tokens, "map_hot_tokens", outputs=(wrong,))
    assert "int32" in check_operator(operator, arguments_of("map_hot_tokens"))["test_faketensor"]


def test_an_argument_that_is_written_in_secret_is_found(planted):
    record = "assign_req_to_token_pool"
    operator = planted("in_secret", gpu.assign_req_to_token_pool, record, writes=())
    found = check_operator(operator, ranges())
    assert "req_to_token is not defined as mutable but was mutated" in found["test_schema"]
    assert check_operator(OPERATORS.assign_req_to_token_pool.default, ranges()) == {}


@pytest.mark.filterwarnings("ignore:.*The output of this custom operator:UserWarning")
def test_an_output_that_is_an_argument_is_found(planted):
    operator = planted("the_same", lambda index, table: index, "map_hot_tokens")
    assert "alias" in check_operator(operator, arguments_of("map_hot_tokens"))["test_schema"]
