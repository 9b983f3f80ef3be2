"""The stub files say what the tables say, and the classes that they name are there."""

import pickle

import pytest

import specsim.operations
from specsim.operations import MODEL_TABLE, RECORDS, TABLE, outputs, protocol
from specsim.operations.derived.signature import outputs_class_of, parameters_of, returns_of
from specsim.operations.derived.stub import ROOT, generated_files
from specsim.operations.outputs import VerifyTreeGreedyOutputs, outputs_of
from specsim.operations.record import Operation


@pytest.mark.parametrize("file", generated_files())
def test_a_generated_file_is_that_of_the_tables(file):
    expected = generated_files()[file]
    got = (ROOT / file).read_text(encoding="utf-8")
    assert got == expected, f"{file} is out of date: python -m specsim.operations.derived.stub"


def test_the_two_tables_share_no_name_and_are_all_the_records():
    assert not TABLE.keys() & MODEL_TABLE.keys()
    assert [*TABLE, *MODEL_TABLE] == list(RECORDS)
    assert {record.group for record in MODEL_TABLE.values()} == {"forwards", "frozen_forwards", "heads"}


def test_the_tables_hold_no_callables():
    found = {name for name, value in vars(specsim.operations).items() if callable(value) and value is not Operation}
    assert not found, f"{found}: operations are facts; functions stand in the layers"


def test_operations_with_several_outputs_have_a_class_and_no_others():
    several = {name: record for name, record in RECORDS.items() if len(record.contract.outputs) > 1}
    assert {name for name in dir(outputs) if name.endswith("Outputs")} == set(map(outputs_class_of, several.values()))
    for name, record in several.items():
        assert outputs_of(name)._fields == tuple(spec.name for spec in record.contract.outputs)
        assert getattr(outputs, outputs_class_of(record)) is outputs_of(name)
    with pytest.raises(AttributeError, match="has no attribute FillBonusTokensOutputs"):
        _ = outputs.FillBonusTokensOutputs


def test_outputs_unpack_and_are_replaced_by_name():
    verified = VerifyTreeGreedyOutputs([1], [2], [3])
    predict, accept_index, num_accepted_drafts = verified
    assert (predict, accept_index, num_accepted_drafts) == ([1], [2], [3])
    assert verified.accept_index == [2]
    assert verified._replace(accept_index=[4]) == VerifyTreeGreedyOutputs([1], [4], [3])
    assert pickle.loads(pickle.dumps(verified)) == verified
    assert str(VerifyTreeGreedyOutputs[int]) == "specsim.operations.outputs.VerifyTreeGreedyOutputs[int]"


@pytest.mark.parametrize(
    ("operation", "parameters", "returns"),
    [
        (
            "verify_tree_greedy",
            [
                "candidates: ArrayT",
                "retrieve_index: ArrayT",
                "retrieve_next_token: ArrayT",
                "retrieve_next_sibling: ArrayT",
                "target_predict: ArrayT",
                "num_steps: int",
            ],
            "VerifyTreeGreedyOutputs[ArrayT]",
        ),
        (
            "move_kv_cache",
            ["kv_buffers: Sequence[ArrayT]", "target_slots: ArrayT", "source_slots: ArrayT"],
            "None",
        ),
        (
            "chain_speculative_sampling",
            [
                "draft_tokens: ArrayT",
                "cu_num_drafts: ArrayT",
                "uniform_samples: ArrayT",
                "uniform_samples_for_final_sampling: ArrayT",
                "draft_probs: ArrayT | None",
                "target_probs: ArrayT",
                "max_num_drafts: int",
            ],
            "ChainSpeculativeSamplingOutputs[ArrayT]",
        ),
        (
            "target_forward",
            [
                "kv_buffers: Sequence[ArrayT]",
                "input_ids: ArrayT",
                "positions: ArrayT",
                "out_cache_loc: ArrayT",
                "page_table: ArrayT",
                "cache_seqlens: ArrayT",
                "cu_seqlens_q: ArrayT",
                "tree_mask: ArrayT | None = None",
                "page_size: int = 1",
            ],
            "ArrayT",
        ),
    ],
)
def test_signatures_follow_from_the_contract(operation, parameters, returns):
    assert list(map(str, parameters_of(RECORDS[operation]))) == parameters
    assert returns_of(RECORDS[operation]) == returns


def test_flags_are_truth_values():
    assert "strict: bool = True" in map(str, parameters_of(TABLE["tree_speculative_sampling_target_only"]))


def test_the_protocols_are_generic_in_the_array_type():
    assert str(protocol.Operations[int]) == "specsim.operations.protocol.Operations[int]"
    assert str(protocol.ModelOperations[int]) == "specsim.operations.protocol.ModelOperations[int]"
