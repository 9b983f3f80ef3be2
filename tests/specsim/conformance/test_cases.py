import json
from dataclasses import replace

import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim.conformance.cases import Replay, read_case, replay_case, write_case
from specsim.conformance.outcomes import Observation, first_difference, observe
from specsim.rejection import Reason, SpecRejection
from tests.specsim.conformance.some_cases import ORACLE, assert_round_trip, bonus_backend, bonus_case, make_case


def test_a_small_case_is_one_readable_document(tmp_path):
    path = assert_round_trip(bonus_case(Observation(error="ValueError: no")), tmp_path)
    document = json.loads(path.read_text())
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert document["arrays"]["accept_tokens"] == {"dtype": "int32", "shape": [2, 2], "values": [[5, 6], [7, 0]]}
    assert document["expected"] == {"outputs": {"bonus_tokens": {"dtype": "int32", "shape": [2], "values": [6, 7]}}}
    assert document["observed"] == {"error": "ValueError: no"}


def test_large_arrays_stand_beside(tmp_path):
    values = np.arange(40000, dtype=np.float32).reshape(4, 10000)
    case = make_case("compact_accepted_to_front", values=values, accept_index=np.array([[0, 2]], dtype=np.int32))
    path = assert_round_trip(case, tmp_path)
    assert path.with_suffix(".safetensors").exists()
    assert len(path.read_text()) < 4000


def test_lists_absent_arrays_and_every_dtype(tmp_path):
    buffers = [np.array([[1], [2]], dtype=dtype) for dtype in ("uint8", "uint16", "uint32", "int8", "float16", "bool")]
    slots = np.array([1], dtype=np.int64)
    assert_round_trip(make_case("move_kv_cache", kv_buffers=buffers, target_slots=slots, source_slots=slots), tmp_path)
    empty = np.zeros((0, 2), dtype=np.float32)
    indices = np.zeros((0, 2), dtype=np.int64)
    assert_round_trip(
        make_case("select_top_k_tokens", step_index=0, topk_p=empty, topk_index=indices, topk=2), tmp_path
    )


def greedy_case(vocab):
    logits = (np.arange(2 * vocab) % 7 - 0.1).reshape(2, vocab).astype(bfloat16)
    logits[0, 0] = -np.inf
    return make_case(
        "verify_tree_greedy_from_logits",
        candidates=np.array([[0, 1]], dtype=np.int64),
        retrieve_index=np.array([[0, 1]], dtype=np.int64),
        retrieve_next_token=np.array([[1, -1]], dtype=np.int64),
        retrieve_next_sibling=np.array([[-1, -1]], dtype=np.int64),
        logits=logits,
        num_steps=1,
    )


def test_bfloat16_is_written_as_numbers(tmp_path):
    path = assert_round_trip(greedy_case(3), tmp_path)
    logits = json.loads(path.read_text())["arrays"]["logits"]
    assert logits["dtype"] == "bfloat16"
    assert logits["values"] == [["-Infinity", 0.8984375, 1.8984375], [2.90625, 3.90625, 4.90625]]


def test_large_bfloat16_arrays_stand_beside(tmp_path):
    path = assert_round_trip(greedy_case(20000), tmp_path)
    assert path.with_suffix(".safetensors").exists()


def test_flags_are_parameters(tmp_path):
    one = np.ones(1, dtype=np.float32)
    rows = np.ones((1, 1, 1), dtype=np.float32)
    node = np.zeros((1, 1), dtype=np.int64)
    case = make_case(
        "tree_speculative_sampling_target_only",
        candidates=node,
        retrieve_index=node,
        retrieve_next_token=node - 1,
        retrieve_next_sibling=node - 1,
        uniform_samples=rows[0] / 2,
        uniform_samples_for_final_sampling=one / 2,
        target_probs=rows,
        draft_probs=np.zeros_like(rows),
        threshold_single=one,
        threshold_acc=one,
        num_steps=0,
        strict=False,
    )
    path = assert_round_trip(case, tmp_path)
    parameters = json.loads(path.read_text())["parameters"]
    assert parameters == {"num_steps": 0, "strict": 0, "skip_duplicates": 1}


def test_nan_and_infinities(tmp_path):
    values = np.array([[np.nan, np.inf, -np.inf, 0.1]], dtype=np.float32)
    case = make_case("fast_topk", values=values, k=1)
    assert case.expected == Observation(rejection="NAN_SCORE")
    assert_round_trip(case, tmp_path)


def test_many_small_arrays_stand_beside_too(tmp_path):
    buffers = [np.full((6000, 2), place, dtype=np.float32) for place in range(30)]
    slots = np.array([1], dtype=np.int64)
    case = make_case("move_kv_cache", kv_buffers=buffers, target_slots=slots, source_slots=slots)
    path = assert_round_trip(case, tmp_path)
    assert path.with_suffix(".safetensors").exists()


def test_an_absent_size_is_absent(tmp_path):
    path = assert_round_trip(make_case("fast_topk", values=np.ones((1, 2), dtype=np.float32)), tmp_path)
    document = json.loads(path.read_text())
    assert (document["parameters"], document["expected"]) == ({}, {"rejection": "MISSING_ARGUMENT"})


def test_every_nan_is_one(tmp_path):
    values = np.array([[0x7FC00001, 0xFFC00000]], dtype=np.uint32).view(np.float32)
    assert np.isnan(values).all()
    assert_round_trip(make_case("fast_topk", values=values, k=1), tmp_path)


def test_what_no_file_holds_is_not_written(tmp_path):
    case = bonus_case()
    case.arguments["accept_tokens"] = case.arguments["accept_tokens"].astype(complex)
    with pytest.raises(SpecRejection, match=r"arrays\.accept_tokens complex128 \[2, 2\]") as caught:
        write_case(case, tmp_path)
    assert (caught.value.reason, list(tmp_path.iterdir())) == (Reason.BAD_CASE_FILE, [])


def test_long_words_are_cut(tmp_path):
    path = write_case(
        replace(bonus_case(Observation(error="E: " + "x" * 10**6)), message="\ud800" + "m" * 10**6), tmp_path
    )
    got = read_case(path)
    assert len(got.message) == len(got.observed.error) == 1 << 14


def test_the_id_names_the_property():
    assert replace(bonus_case(), property_name="strided.fill_bonus_tokens").id != bonus_case().id


def test_the_id_names_the_arguments():
    assert bonus_case().id == bonus_case(Observation(error="other")).id
    other = make_case(
        "fill_bonus_tokens",
        accept_tokens=np.array([[5, 9], [7, 0]], dtype=np.int32),
        num_accepted_tokens=np.array([2, 1], dtype=np.int32),
    )
    assert other.id != bonus_case().id


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(schema="specsim.case/9"), "schema"),
        (lambda d: d.update(operation="frobnicate"), "frobnicate"),
        (lambda d: d.update(surplus=1), "surplus"),
        (lambda d: d.pop("expected"), "expected"),
        (
            lambda d: d.update(expected=None),
            "expected, nothing, but should be null in a case of the",
        ),
        (lambda d: d.update(kind="observed"), "expected, an observation, but should be null"),
        (lambda d: d.update(kind="heard"), "kind"),
        (lambda d: d.update(id="0" * 16), "the id 0000000000000000"),
        (lambda d: d["arrays"].update(values=None), "arrays.values"),
        (lambda d: d["parameters"].update(k=1), "parameters.k"),
        (lambda d: d["expected"]["outputs"].update(surplus=None), "expected.outputs.surplus"),
        (lambda d: d["arrays"]["accept_tokens"].update(dtype="object"), "dtype object"),
        (lambda d: d["arrays"]["accept_tokens"].update(shape=[4]), "shape"),
        (lambda d: d["arrays"]["accept_tokens"].update(values=[[1], [2, 3]]), "arrays.accept_tokens.values"),
        (lambda d: d["arrays"]["accept_tokens"].update(values=[["x", 1], [2, 3]]), "arrays.accept_tokens.values"),
        (lambda d: d["arrays"]["accept_tokens"].update(values=[[2**70, 1], [2, 3]]), "arrays.accept_tokens.values"),
        (lambda d: d["arrays"].update(accept_tokens={"dtype": "int32", "shape": [2, 2], "key": "x"}), "arrays_file"),
    ],
)
def test_a_damaged_document_is_rejected(change, words, tmp_path):
    path = write_case(bonus_case(), tmp_path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(SpecRejection, match=words) as caught:
        read_case(path)
    assert caught.value.reason is Reason.BAD_CASE_FILE


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"\x80\x04K\x01.", b"[" * 100000])
def test_what_is_no_document_is_rejected(content, tmp_path):
    path = tmp_path / "case.json"
    path.write_bytes(content)
    with pytest.raises(SpecRejection) as caught:
        read_case(path)
    assert caught.value.reason is Reason.BAD_CASE_FILE


def test_a_missing_file_and_a_folder_are_rejected(tmp_path):
    for path in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(SpecRejection) as caught:
            read_case(path)
        assert caught.value.reason is Reason.BAD_CASE_FILE


def test_a_damaged_file_beside_is_rejected(tmp_path):
    values = np.zeros((4, 10000), dtype=np.float32)
    path = write_case(
        make_case("compact_accepted_to_front", values=values, accept_index=np.array([[0, 2]], dtype=np.int32)), tmp_path
    )
    path.with_suffix(".safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(SpecRejection) as caught:
        read_case(path)
    assert caught.value.reason is Reason.BAD_CASE_FILE


def first_token(accept_tokens, num_accepted_tokens):
    return accept_tokens[:, 0].copy()


def test_replays():
    case = bonus_case(observe(bonus_backend(first_token), "fill_bonus_tokens", bonus_case().arguments))

    def raises(accept_tokens, num_accepted_tokens):
        raise IndexError("index 9\nand more")

    def other(accept_tokens, num_accepted_tokens):
        return accept_tokens[:, 0] + 1

    assert replay_case(ORACLE, case) == (Replay.FIXED, "")
    assert replay_case(bonus_backend(first_token), case) == (Replay.FAILED, "bonus_tokens[0] = 5, but should be 6")
    changed = (Replay.CHANGED, "bonus_tokens[1] = 8, but should be 7")
    assert replay_case(bonus_backend(other), case) == changed
    assert replay_case(bonus_backend(raises), case) == (Replay.CRASHED, "IndexError: index 9")


def test_an_expected_rejection_is_not_a_crash():
    case = make_case("fast_topk", values=np.array([[np.nan]], dtype=np.float32), k=1)
    accepts = ORACLE.with_function("fast_topk", lambda values, k: (values, np.zeros((1, 1), dtype=np.int64)), "accepts")
    assert replay_case(ORACLE, case) == (Replay.FIXED, "")
    assert replay_case(accepts, case) == (Replay.CHANGED, "fast_topk = arrays, but should be a rejection, NAN_SCORE")


def test_undefined_entries_are_not_compared():
    arguments = {"values": np.arange(3), "accept_index": np.array([[0, 2]], dtype=np.int32)}
    expected = observe(ORACLE, "compact_accepted_to_front", arguments)
    tail, front = expected.outputs["compacted"].copy(), expected.outputs["compacted"].copy()
    tail[2], front[1] = 99, 99
    name = "compact_accepted_to_front"
    assert first_difference(name, arguments, expected, Observation({"compacted": tail})) is None
    assert first_difference(name, arguments, expected, Observation({"compacted": front})) == (
        "compacted[1] = 99, but should be 2"
    )


def test_another_dtype_is_a_difference():
    case = bonus_case()
    wide = Observation({"bonus_tokens": case.expected.outputs["bonus_tokens"].astype(np.int64)})
    assert first_difference(case.operation, case.arguments, case.expected, wide) == (
        "bonus_tokens = int64 [2], but should be int32 [2]"
    )
