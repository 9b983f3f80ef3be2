"""A phase's field, the output that it holds and the arguments that read it are one array: all of them say the same."""

from dataclasses import replace

import pytest

from specsim.contracts.axes import evaluate
from specsim.contracts.contract import Unit
from specsim.operations import TABLE
from specsim.operations.shared import seq_lens
from specsim.phases import DraftExtendInput, DraftInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.phases.carried import array_of, narrowed

PHASES = {one.__name__: one for one in (DraftInput, VerifyInput, VerifyOutput, DraftExtendInput, EagleDraftExtendInput)}
SIZES = {"request": 3, "node": 5, "draft": 2, "topk": 2, "step": 2, "hidden": 7, "position": 40, "row": 9}
FLAT = {"token": 15, "location": 15, "mask_mode": 1, "not_packed": 1}
AXES = {
    "DraftInput": {"row": 3, "k": 2, "column": 2, "branch": 1, "not_packed": 1},
    "VerifyInput": FLAT,
    "VerifyOutput": FLAT,
    "DraftExtendInput": FLAT,
    "EagleDraftExtendInput": {"token": 11, "request*(draft+1)": 11},
}
"""What axes of operations are in a phase: those of the table that have another name there."""

RAGGED = {"create_extend_after_decode_spec_info", "generate_attn_arg_prefill", "select_last_verified"}
"""Operations that take and return segments of different lengths: those of the ragged extend, and of it alone."""

HELD = {
    "DraftInput.topk_p": "fast_topk.topk_values",
    "DraftInput.topk_index": "map_hot_tokens.token_index",
    "DraftInput.bonus_tokens": "fill_bonus_tokens.bonus_tokens",
    "VerifyInput.draft_token": "build_tree.draft_token",
    "VerifyInput.retrieve_index": "build_tree.retrieve_index",
    "VerifyInput.retrieve_next_token": "build_tree.retrieve_next_token",
    "VerifyInput.retrieve_next_sibling": "build_tree.retrieve_next_sibling",
    "VerifyInput.positions": "build_tree.positions",
    "VerifyInput.tree_mask": "build_tree.tree_mask",
    "VerifyInput.out_cache_loc": "assign_extend_cache_locs.out_cache_loc",
    "VerifyOutput.target_predict": "argmax_target_predict.target_predict",
    "VerifyOutput.predict": "verify_tree_greedy.predict",
    "VerifyOutput.accept_index": "verify_tree_greedy.accept_index",
    "VerifyOutput.num_accepted_drafts": "verify_tree_greedy.num_accepted_drafts",
    "VerifyOutput.bonus_tokens": "fill_bonus_tokens.bonus_tokens",
    "DraftExtendInput.input_ids": "compact_accepted_to_front.compacted",
    "DraftExtendInput.hidden_states": "compact_accepted_to_front.compacted",
    "DraftExtendInput.positions": "prepare_for_extend_to_fill_draft_kvcache.positions",
    "DraftExtendInput.out_cache_loc": "assign_extend_cache_locs.out_cache_loc",
    "DraftExtendInput.forward_seq_lens": "prepare_for_extend_to_fill_draft_kvcache.forward_seq_lens",
    "DraftExtendInput.num_accepted_drafts": "verify_tree_greedy.num_accepted_drafts",
    "DraftExtendInput.select_index": "prepare_for_extend_to_fill_draft_kvcache.select_index",
    "EagleDraftExtendInput.num_accepted_drafts": "verify_tree_greedy.num_accepted_drafts",
    "EagleDraftExtendInput.out_cache_loc": "fill_accept_out_cache_loc.source_slots",
    "EagleDraftExtendInput.positions": "create_extend_after_decode_spec_info.positions",
    "EagleDraftExtendInput.bonus_tokens": "create_extend_after_decode_spec_info.bonus_tokens",
}
"""The output that a field holds."""

READ_AS = {
    "VerifyInput.draft_token": ("verify_tree_greedy.candidates",),
    "VerifyOutput.predict": ("compact_accepted_to_front.values",),
    "VerifyOutput.hidden_states": ("compact_accepted_to_front.values",),
    "EagleDraftExtendInput.seq_lens": ("generate_attn_arg_prefill.kv_lens",),
}
"""Arguments that read a field under another name; those of its own name are found by it."""

OF_THE_WORKER = {
    "DraftInput.req_pool_indices": "which requests run",
    "DraftInput.seq_lens": "committed lengths",
    "DraftInput.hidden_states": "of the draft model",
    "DraftInput.future_indices": "places in relay buffers",
    "VerifyInput.seq_lens": "committed lengths",
    "VerifyOutput.num_accepted_tokens": "specsim.counts",
    "VerifyOutput.hidden_states": "of the target",
    "DraftExtendInput.num_accepted_tokens": "specsim.counts",
    "EagleDraftExtendInput.req_pool_indices": "which requests go on",
    "EagleDraftExtendInput.seq_lens": "lengths after the verify",
    "EagleDraftExtendInput.num_accepted_tokens": "specsim.counts",
    "EagleDraftExtendInput.input_ids": "the output tokens of the requests that go on",
    "EagleDraftExtendInput.hidden_states": "of the target, along the accepted paths",
}
"""Fields that are no output of an operation of the table, and what they hold."""

NAMESAKES = {
    "assign_draft_cache_locs.out_cache_loc": "slots of the draft",
    "assign_req_to_token_pool.out_cache_loc": "any slots that were allocated",
    "generate_draft_decode_kv_indices.positions": "one a beam",
    "map_hot_tokens.topk_index": "of any level",
    "per_step_draft_out_cache_loc.out_cache_loc": "slots of the draft",
    "prepare_for_frozen_kv_draft.positions": "one a beam",
    "rotate_input_ids.select_index": "a place among all tokens",
    "rotate_prefill_input_ids.input_ids": "of a prompt",
    "select_top_k_tokens.input_ids": "of a level of the draft",
    "fast_topk.topk_index": "of any row",
    "verify_chain_greedy.target_predict": "of ragged chains",
    "verify_cascade_metadata.tree_mask": "columns of the prefix too",
    "verify_custom_mask_metadata.tree_mask": "columns of the prefix too",
}
"""Arrays of operations that are called like a field and are others."""


def arrays_of(operation):
    return (*TABLE[operation].contract.arrays, *TABLE[operation].contract.outputs)


PLACES = {f"{operation}.{spec.name}": spec for operation in TABLE for spec in arrays_of(operation)}
FIELDS = {f"{name}.{spec.name}": spec for name, phase in PHASES.items() for spec in phase.contract.arrays}


def places_of(field):
    """Return the outputs and arguments that have to agree with a field."""
    phase, _, name = field.partition(".")
    namesakes = [
        place
        for place in PLACES
        if place.partition(".")[2] == name
        and place not in NAMESAKES
        and (place.partition(".")[0] in RAGGED) == (phase == "EagleDraftExtendInput")
    ]
    held = [HELD[field]] if field in HELD else []
    return sorted({*namesakes, *READ_AS.get(field, ()), *held})


def dtypes_of(spec):
    if spec.dtype == "any" or spec.dtype.startswith("like "):
        return None
    return {evaluate(spec.dtype, {"not_packed": 1})} if " " in spec.dtype else set(spec.dtype.split("|"))


def size_of(spec, axes):
    """Return the entries of an array; its open axes hold seven."""
    sizes, size = {**SIZES, **axes}, 1
    for axis in spec.axes:
        size *= SIZES["hidden"] if axis == "..." else sizes[axis] if axis in sizes else evaluate(axis, sizes)
    return size


def disagreements(field, place, spec, axes):
    """Return what an array of an operation says otherwise than the field of a phase."""
    found = []
    ours, theirs = dtypes_of(field), dtypes_of(spec)
    if ours is not None and theirs is not None and not ours <= theirs:
        found.append(f"dtype {' or '.join(sorted(theirs))}, not {' or '.join(sorted(ours))}")
    if Unit.ANY in (field.unit, spec.unit):
        return [f"{place}: {one}" for one in found]
    if field.unit != spec.unit:
        found.append(f"unit {spec.unit}, not {field.unit}")
    if field.sentinel != spec.sentinel:
        found.append(f"sentinel {spec.sentinel}, not {field.sentinel}")
    if size_of(field, axes) != size_of(spec, axes):
        found.append(f"axes {spec.axes}, not {field.axes}")
    return [f"{place}: {one}" for one in found]


def test_phases_and_operations_say_the_same_of_an_array():
    found = [
        f"{name} and {line}"
        for name, field in FIELDS.items()
        for place in places_of(name)
        for line in disagreements(field, place, PLACES[place], AXES[name.partition(".")[0]])
    ]
    assert not found, "\n".join(found)


def test_fields_of_one_name_hold_the_same_in_every_phase():
    """A batch carries them from phase to phase: their unit and dtype do not change on the way."""
    said = {}
    for place, field in FIELDS.items():
        said.setdefault(field.name, {}).setdefault((field.unit, field.dtype), []).append(place)
    of_any_dtype = {"hidden_states"}
    found = {name: one for name, one in said.items() if len(one) > 1 and name not in of_any_dtype}
    assert not found


def test_every_field_is_an_output_or_of_the_worker():
    assert not HELD.keys() & OF_THE_WORKER.keys()
    assert FIELDS.keys() == HELD.keys() | OF_THE_WORKER.keys()
    assert NAMESAKES.keys() <= PLACES.keys()


def test_what_one_operation_returns_and_another_takes_is_compared_with_both():
    for name in ("predict", "accept_index"):
        assert f"gather_accept_tokens.{name}" in places_of(f"VerifyOutput.{name}")
        assert f"verify_tree_greedy.{name}" in places_of(f"VerifyOutput.{name}")
    assert len(places_of("VerifyInput.seq_lens")) >= 8


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"unit": Unit.POSITION}, "unit position, not count"),
        ({"dtype": "int32"}, "dtype int32, not int64"),
        ({"axes": ("request+1",)}, "axes ('request+1',), not ('request',)"),
        ({"sentinel": -1}, "sentinel -1, not None"),
    ],
)
def test_a_planted_drift_is_found(changes, line):
    assert disagreements(FIELDS["VerifyInput.seq_lens"], "it", replace(seq_lens(), **changes), {}) == [f"it: {line}"]


def test_a_field_is_what_the_operation_states():
    contract = TABLE["build_tree"].contract
    assert array_of("build_tree", "draft_token") == contract.by_name["draft_token"]
    bonus_tokens = replace(contract.by_name["bonus_tokens"], dtype="int32")
    assert array_of("build_tree", "bonus_tokens", dtype="int32") == bonus_tokens


def test_a_field_may_not_leave_the_dtypes_of_its_operation():
    with pytest.raises(ValueError, match="seq_lens as float32, but should be int64 or int32"):
        narrowed(seq_lens(), dtype="float32")
    with pytest.raises(ValueError, match="tree_mask as int8, but should be bool or uint8 or uint16 or uint32"):
        array_of("build_tree", "tree_mask", dtype="int8")
