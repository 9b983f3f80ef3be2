import os
import subprocess
import sys

import pytest

from specsim import gpu
from specsim.gpu.launching.aot import TARGETS, all_kernels, features_of, main, misread_reductions, record_launches
from specsim.gpu.launching.blocks import ON_GPU
from specsim.gpu.launching.examples import PRODUCTION, example, variants
from specsim.gpu.launching.mode import launching
from specsim.operations import RECORDS

ALTERNATIVES = {
    ("_argmax_target_predict_kernel", "logits_ptr"): {"torch.float32", "torch.int64"},
    ("_argmax_target_predict_kernel", "target_predict_ptr"): {"None", "torch.int64"},
    ("_build_tree_kernel", "IS_FULL"): {"True", "False"},
    ("_build_tree_kernel", "tree_mask_ptr"): {"torch.uint8", "torch.uint16"},
    ("_build_tree_kernel", "seq_lens_ptr"): {"torch.int32", "torch.int64"},
    ("_accept_chain_kernel", "HAS_DRAFT"): {"True", "False"},
    ("_cap_accepted_drafts_kernel", "IS_COMPACT"): {"True", "False"},
    ("_cap_accepted_drafts_kernel", "bonus_tokens_ptr"): {"torch.int32", "torch.int64"},
    ("_choose_beams_kernel", "keys_ptr"): {"None", "torch.int64"},
    ("_choose_beams_kernel", "hot_token_id_ptr"): {"None", "torch.int64"},
    ("_choose_beams_kernel", "hidden_states_ptr"): {"None", "torch.bfloat16"},
    ("_choose_beams_kernel", "IS_FIRST"): {"True", "False"},
    ("_commit_inject_layout_kernel", "HAS_RING"): {"True", "False"},
    ("_commit_inject_layout_kernel", "verify_lens_ptr"): {"None", "torch.int32"},
    ("_commit_inject_layout_kernel", "slot_map_ptr"): {"None", "torch.int32", "torch.int64"},
    ("_compact_accepted_to_front_kernel", "values_ptr"): {"torch.int64", "torch.int32", "torch.int16", "torch.uint8"},
    ("_end_unfiltered_kernel", "READS_ALL"): {"True", "False"},
    ("_fast_topk_kernel", "FROM_KEYS"): {"True", "False"},
    ("_fast_topk_kernel", "GROUP"): {"1", "2"},
    ("_fast_topk_kernel", "ONE_BY_ONE"): {"True", "False"},
    ("_commit_recurrent_states_kernel", "WORD"): {"int64", "int32", "int16", "uint8"},
    ("_draw_after_fronts_kernel", "HAS_DRAFT"): {"True", "False"},
    ("_compact_paths_kernel", "hidden_states_ptr"): {"None", "torch.int64"},
    ("_compact_paths_kernel", "IS_CHAIN"): {"True", "False"},
    ("_copy_rows_kernel", "GATHERS"): {"True", "False"},
    ("_draw_last_token_kernel", "HAS_OTHER"): {"True", "False"},
    ("_fill_bitmask_kernel", "leader_ptr"): {"None", "torch.int32"},
    ("_fold_pages_kernel", "tree_mask_ptr"): {"None", "torch.bool"},
    ("_gather_output_logprobs_kernel", "LISTED"): {"0", "2"},
    ("_gather_output_logprobs_kernel", "IS_CLAMPED"): {"True", "False"},
    ("_gather_output_logprobs_kernel", "logits_ptr"): {"torch.float32", "torch.bfloat16"},
    ("_gather_output_logprobs_kernel", "temperature_ptr"): {"None", "torch.float32"},
    ("_get_recurrent_steps_kernel", "HAS_SNAPSHOTS"): {"True", "False"},
    ("_get_recurrent_steps_kernel", "seq_lens_ptr"): {"torch.int32", "torch.int64"},
    ("_hash_target_logits_kernel", "seed"): {"32 bits", "64 bits"},
    ("_list_keys_kernel", "custom_mask_ptr"): {"None", "torch.bool"},
    ("_move_kv_cache_by_scratch_kernel", "WORD"): {"int64", "int32"},
    ("_move_kv_cache_by_scratch_kernel", "PAGE"): {"1", "2"},
    ("_move_kv_cache_kernel", "WORD"): {"int64", "int32", "int16", "uint8"},
    ("_move_kv_cache_kernel", "PAGE"): {"1", "2"},
    ("_prepare_logits_kernel", "logits_ptr"): {"torch.float32", "torch.bfloat16"},
    ("_prepare_logits_kernel", "vocab_mask_ptr"): {"None", "torch.int32"},
    ("_race_kernel", "READS_LOGITS"): {"True", "False"},
    ("_read_unfiltered_kernel", "READS_ALL"): {"True", "False"},
    ("_reach_nodes_kernel", "leader_ptr"): {"None", "torch.int32"},
    ("_read_chunks_kernel", "temperature_ptr"): {"None", "torch.float32"},
    ("_read_chunks_kernel", "values_ptr"): {"torch.float32", "torch.bfloat16"},
    ("_row_statistics_kernel", "PRECISE"): {"True", "False"},
    ("_scatter_compact_to_strided_kernel", "values_ptr"): {"torch.int64", "torch.int32", "torch.int16", "torch.uint8"},
    ("_schedule_verify_lens_kernel", "num_drafts_ptr"): {"None", "torch.int32"},
    ("_schedule_verify_lens_kernel", "survival_eps_ptr"): {"None", "torch.float32"},
    ("_score_chunks_kernel", "logits_ptr"): {"torch.float32", "torch.bfloat16"},
    ("_score_chunks_kernel", "temperature_ptr"): {"None", "torch.float32"},
    ("_select_top_k_tokens_kernel", "IS_FIRST"): {"True", "False"},
    ("_select_top_k_tokens_kernel", "HAS_HIDDEN"): {"True", "False"},
    ("_settle_rows_kernel", "temperature_ptr"): {"None", "torch.float32"},
    ("_settle_rows_kernel", "top_k_ptr"): {"None", "torch.int32"},
    ("_settle_rows_kernel", "min_p_ptr"): {"None", "torch.float32"},
    ("_settle_rows_kernel", "values_ptr"): {"torch.float32", "torch.bfloat16"},
    ("_settle_rows_kernel", "threshold_ptr"): {"None", "torch.int32"},
    ("_settle_rows_kernel", "IS_LISTED"): {"True", "False"},
    ("_store_entries_kernel", "below_ptr"): {"None", "torch.int64"},
    ("_store_entries_kernel", "NUM_DIGESTED"): {"0", "2"},
    ("_target_verify_metadata_kernel", "verify_lens_ptr"): {"None", "torch.int32"},
    ("_translate_move_slots_kernel", "full_to_swa_ptr"): {"torch.int32", "torch.int64"},
    ("_weigh_fronts_kernel", "HAS_DRAFT"): {"True", "False"},
    ("_verify_tree_greedy_kernel", "target_predict_ptr"): {"None", "torch.int64"},
    ("_walk_greedy_kernel", "logits_ptr"): {"torch.float32", "torch.bfloat16"},
    ("_walk_sampled_kernel", "logits_ptr"): {"torch.float32", "torch.bfloat16"},
    ("_walk_sampled_kernel", "CHUNKS"): {"1", "2"},
    ("_walk_sampled_kernel", "PRECISE"): {"True", "False"},
    ("_walk_tree_kernel", "STRICT"): {"True", "False"},
}
"""What of a parameter must be compiled, as ``features_of`` says it."""

SHARES = [("90", share, 3) for share in range(3)] + [("80", 0, 1), ("100", 0, 1)]
"""Tests that share the kernels among them, so that several run at once: target, share, and number of shares.

On one target every launch compiles, on the others the first one of each kernel.
"""


@pytest.fixture(scope="module")
def launches():
    return record_launches()


def test_every_kernel_is_launched_by_an_example(launches):
    assert set(launches) == set(all_kernels())
    assert all(launches.values())


def test_every_operation_has_an_example_in_production():
    without = [name for name in RECORDS if "production" not in {kind for kind, _ in variants(name)}]
    assert not without, f"{without}: their examples are refused; see specsim.gpu.launching.examples"


def test_what_decides_how_a_kernel_is_compiled_is_covered(launches):
    missing = []
    for (kernel, parameter), wanted in ALTERNATIVES.items():
        covered = {value for one in launches[kernel] for name, value in features_of(one) if name == parameter}
        missing += [f"{kernel}: {parameter} = {value}" for value in sorted(wanted - covered)]
    assert not missing, f"compiled by no example: {', '.join(missing)}"


def test_launches_are_recorded_as_on_a_gpu(launches):
    blocks = {one.plan.tunables["BLOCK"] for one in launches["_fast_topk_kernel"]}
    assert max(blocks) == 4096


def test_a_recording_touches_no_memory():
    arguments = example("verify_tree_greedy", PRODUCTION)
    seen = []
    with launching(seen.append, runs=False, blocks=ON_GPU):
        outputs = gpu.verify_tree_greedy(**arguments)
    assert [one.plan.name for one in seen] == ["_verify_tree_greedy_kernel"]
    assert {output.device.type for output in outputs} == {"meta"}


def compiled_by(*named):
    """Run the command, with the interpreter off.

    It makes no tables of line numbers, which are an eighth of the work: the machine code is the same without them.
    """
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_DISABLE_LINE_INFO": "1"}
    command = [sys.executable, "-m", "specsim.gpu.launching.aot", *named]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.first
@pytest.mark.parametrize(("target", "share", "num_shares"), SHARES)
def test_every_kernel_compiles_for_every_target(launches, target, share, num_shares):
    is_whole = target == "90"
    named = sorted(launches)[share::num_shares]
    wanted = {f"{name}[{one}]" for name in named for one in range(len(launches[name]) if is_whole else 1)}
    finished = compiled_by(target, *(named if is_whole else wanted))
    assert finished.returncode == 0, finished.stderr[-2000:]
    compiled = {tuple(line.split()[:2]) for line in finished.stdout.splitlines()}
    assert compiled == {(one, f"sm_{target}") for one in wanted}


def test_every_target_is_compiled_for():
    assert {int(target) for target, *_ in SHARES} == {*TARGETS}


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("75", "compute capabilities are (80, 90, 100), but got 75"),
        ("_no_kernel[0]", "kernels have names such as _accept_chain_kernel, but got _no_kernel[0]"),
    ],
)
def test_what_cannot_be_compiled_is_refused_in_one_line(monkeypatch, capsys, named, message):
    monkeypatch.setattr(sys, "argv", ["aot", named])
    with pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code, capsys.readouterr().out) == (message, "")


REDUCED = """\
#linear = #ttg.linear<{{register = [], lane = {lanes}, warp = [[0, 8]], block = []}}>
      %sum = "tt.reduce"(%tile) <{{axis = {axis} : i32}}> ({{
        tt.reduce.return %entry : i64 loc(#loc2)
      }}) : (tensor<{operand}>) -> tensor<4xi64, #ttg.slice<{{dim = 1, parent = #linear}}>> loc(#loc3)
"""
APART, SIDE_BY_SIDE = "[[0, 1], [0, 2], [0, 0], [0, 0], [0, 4]]", "[[0, 0], [0, 1], [0, 2], [0, 4], [1, 0]]"


@pytest.mark.parametrize(
    ("lanes", "axis", "operand", "is_misread"),
    [
        (APART, 1, "4x16xi64, #linear", True),
        (APART, 0, "4x16xi64, #linear", False),
        (APART, 0, "16xi64, #ttg.slice<{dim = 0, parent = #linear}>", True),
        (APART, 1, "4x16xi64, #blocked", False),
        (SIDE_BY_SIDE, 1, "4x16xi64, #linear", False),
    ],
)
def test_reductions_over_lanes_with_copies_between_are_found(lanes, axis, operand, is_misread):
    """An H100 has shown it: of a tile of tokens, some came out twice as large, and others as 0."""
    found = misread_reductions(REDUCED.format(lanes=lanes, axis=axis, operand=operand))
    assert found == [operand] * is_misread
