"""Pictures of cases: the worked examples K.1 to K.3, both outcomes, and arrays that no operation would take."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specsim.conformance.cases import Case
from specsim.conformance.outcomes import Observation
from specsim.conformance.pictures import draw_case
from specsim.conformance.stored import Provenance
from specsim.operations import RECORDS
from specsim.properties import strategies
from tests.quality.pool import Pool
from tests.specsim.conformance.some_cases import bonus_case, make_case
from tests.specsim.pictures.parsed import assert_figure, boxes_of, ids_of, root_of, tags_of, texts_of, words_of
from tests.worked_examples.numbers import (
    ACCEPT_INDEX,
    BONUS,
    DRAFT_TOKEN,
    DRAFT_TOKENS,
    NEXT_SIBLING,
    NEXT_TOKEN,
    PARENT_LIST,
    PREDICT,
    QLEN_ROWS,
    RETRIEVE_INDEX,
    SEQ_LENS,
    TARGET_PREDICT,
    TOP_SCORES_INDEX,
    VERIFY_SLOTS,
    f32,
    i32,
    i64,
)

NO_TREE_OF_K1 = ("node 0", "node 1", "node 3", "node 5", "node 2", "node 4")
WITHOUT_DRAWING = {
    *("fast_topk", "select_top_k_tokens", "map_hot_tokens", "keep_top_k_exactly", "argmax_target_predict"),
    *("schedule_verify_lens", "pad_verify_lens_to_bucket", "scatter_compact_to_strided", "generate_coins"),
    *("prepare_logits", "top_k_renorm", "top_p_renorm", "min_p_renorm", "target_probabilities"),
    *("sample_target_predict", "commit_recurrent_states", "create_num_accepted_drafts_filter"),
    *("rotate_prefill_input_ids", "prepare_for_extend_to_fill_draft_kvcache", "create_extend_after_decode_spec_info"),
    *("rotate_input_ids", "assign_hidden_states_pool", "prepare_for_frozen_kv_draft", "select_last_verified"),
    *("hash_target_logits", "text_target_logits", "hash_sampling_logits"),
    *("hash_draft_probabilities", "text_draft_probabilities"),
}
"""Operations without a tree, a chain or slots."""


@cache
def some_calls(operation):
    return Pool(strategies.for_operation(operation), most=200, in_rounds_of=3)


def verify_case(**changed):
    arguments = {
        "candidates": i64(DRAFT_TOKEN).reshape(2, 6),
        "retrieve_index": i64(RETRIEVE_INDEX),
        "retrieve_next_token": i64(NEXT_TOKEN),
        "retrieve_next_sibling": i64(NEXT_SIBLING),
        "target_predict": i64(TARGET_PREDICT),
        "num_steps": 3,
    }
    return make_case("verify_tree_greedy", **{**arguments, **changed})


def states_of(svg):
    return [(box.marks["name"], box.marks["state"]) for box in boxes_of(svg, "name")]


def test_k2_the_accepted_path_its_siblings_and_the_bonus_token():
    boxes = boxes_of(draw_case(verify_case()), "name")
    drawn = [(box.marks["name"], box.lines[0], box.marks["state"]) for box in boxes]
    assert drawn == [
        ("node 0", "token 10", "accepted"),
        ("node 1", "token 11", "rejected"),
        ("node 3", "token 21", "plain"),
        ("node 5", "token 51", "plain"),
        ("node 2", "token 12", "accepted"),
        ("node 4", "token 23", "accepted"),
        ("bonus", "token 70", "bonus"),
        ("node 0", "token 30", "accepted"),
        ("node 1", "token 31", "accepted"),
        ("node 2", "token 41", "rejected"),
        ("node 4", "token 61", "plain"),
        ("node 3", "token 42", "accepted"),
        ("node 5", "token 63", "accepted"),
        ("bonus", "token 80", "bonus"),
    ]
    places = {box.marks["name"]: (box.left, box.top + box.height / 2) for box in boxes[:7]}
    assert places["node 1"][0] == places["node 2"][0] < places["node 4"][0] < places["bonus"][0]
    assert places["node 1"][1] < places["node 2"][1] == places["node 4"][1] == places["bonus"][1]


def test_what_was_observed_is_drawn_where_it_differs():
    expected = verify_case().expected.outputs
    wrong = {**expected, "accept_index": i32([[0, 2, -1, -1], ACCEPT_INDEX[1]]), "num_accepted_drafts": i32([1, 3])}
    case = replace(verify_case(), observed=Observation(wrong))
    svg = draw_case(case)
    assert [text for text in texts_of(svg) if text.startswith("request")] == [
        "request 0, expected",
        "request 0, observed",
        "request 1",
    ]
    assert states_of(svg)[7:15] == [
        *[("node 0", "accepted"), ("node 1", "rejected"), ("node 3", "plain"), ("node 5", "plain")],
        *[("node 2", "accepted"), ("node 4", "rejected"), ("bonus", "bonus"), ("node 0", "accepted")],
    ]
    assert texts_of(svg)[-10] == "accept_index[0, 2] = -1, but should be 4"
    assert texts_of(svg)[-9:] == [
        *("not equal", "accept_index", "num_accepted_drafts"),
        *("expected", "[[0, 2, 4, -1], [6, 7, 9, 11]]", "[2, 3]"),
        *("observed", "[[0, 2, -1, -1], [6, 7, 9, 11]]", "[1, 3]"),
    ]


def test_the_figure_of_the_page_is_such_a_picture():
    expected = verify_case().expected.outputs
    wrong = {**expected, "accept_index": i32([[0, 2, -1, -1], ACCEPT_INDEX[1]]), "num_accepted_drafts": i32([1, 3])}
    message = "accept_index[0, 2] = -1, but should be 4"
    assert_figure("case", draw_case(replace(verify_case(), observed=Observation(wrong), message=message)))


def test_an_error_is_named_beside_the_picture():
    svg = draw_case(replace(verify_case(), observed=Observation(error="IndexError: [9]\nmore")))
    assert texts_of(svg)[-5:] == ["outcome", "expected", "outputs", "observed", "IndexError: [9]"]
    assert len(states_of(svg)) == 14


@pytest.mark.parametrize("form", ["links", "parents", "mask", "squares"])
def test_k1_the_same_tree_is_read_from_links_parents_and_masks(form):
    built = {
        "bonus_tokens": i64(BONUS),
        "parent_list": i64(PARENT_LIST),
        "top_scores_index": i64(TOP_SCORES_INDEX),
        "draft_tokens": i64(DRAFT_TOKENS),
        "seq_lens": i64(SEQ_LENS),
        "topk": 2,
        "num_steps": 3,
        "num_draft_tokens": 6,
        "mask_mode": 1,
        "seq_lens_sum": sum(SEQ_LENS),
    }
    if form == "links":
        case = make_case("build_tree", **built)
    elif form == "parents":
        case = replace(
            make_case("build_tree", **built), expected=Observation(rejection="x"), observed=Observation(error="x")
        )
    elif form == "squares":
        case = make_case("reconstruct_indices_from_tree_mask", tree_mask=QLEN_ROWS, seq_lens=i64(SEQ_LENS))
    else:
        full = [
            np.concatenate([np.ones((6, length), bool), rows], 1)
            for length, rows in zip(SEQ_LENS, QLEN_ROWS, strict=True)
        ]
        arguments = {
            "req_pool_indices": i64([1, 2]),
            "req_to_token": i32(np.arange(60).reshape(3, 20)),
            "seq_lens": i64(SEQ_LENS),
            "tree_mask": np.concatenate([one.reshape(-1) for one in full]),
            "num_draft_tokens": 6,
            "seq_lens_sum": sum(SEQ_LENS),
        }
        case = Case(
            "verify_custom_mask_metadata",
            "law",
            arguments,
            Observation(rejection="x"),
            Observation(),
            "",
            Provenance("m", 0),
        )
    boxes = boxes_of(draw_case(case), "name")
    assert tuple(box.marks["name"] for box in boxes[:6]) == NO_TREE_OF_K1
    levels = sorted({box.left for box in boxes[:6]})
    assert [levels.index(box.left) for box in boxes[:6]] == [0, 1, 2, 3, 1, 2]


def test_k3_slots_before_and_after_compaction():
    case = make_case("compact_accepted_to_front", values=i32(PREDICT), accept_index=i32(ACCEPT_INDEX))
    boxes = boxes_of(draw_case(case), "state")
    rows = [[box.lines[0] for box in boxes if box.top == top] for top in sorted({box.top for box in boxes})]
    assert rows == [
        ["12", "0", "23", "0", "70", "0"],
        ["12", "23", "70"],
        ["31", "42", "0", "63", "0", "80"],
        ["31", "42", "63", "80"],
    ]
    moves = [one for one in root_of(draw_case(case)).iter() if one.get("data-move") is not None]
    assert len(moves) == 7


def test_k3_slots_that_are_moved():
    case = make_case("fill_accept_out_cache_loc", accept_index=i32(ACCEPT_INDEX), out_cache_loc=i64(VERIFY_SLOTS))
    boxes = boxes_of(draw_case(case), "state")
    assert [box.lines for box in boxes[:9]] == [
        *((str(20 + node), f"node {node}") for node in range(6)),
        *[("20", "node 0"), ("21", "node 2"), ("22", "node 4")],
    ]
    assert [box.marks["state"] for box in boxes[:6]] == ["accepted", "rejected"] * 3


def test_a_chain_has_its_root_drafts_and_the_bonus_token():
    case = make_case(
        "chain_speculative_sampling",
        draft_tokens=i64([1, 0]),
        cu_num_drafts=i32([0, 2]),
        uniform_samples=f32([0.0, 0.5]),
        uniform_samples_for_final_sampling=f32([0.5]),
        draft_probs=f32([[0, 1], [1, 0]]),
        target_probs=f32([[0, 1], [0, 1], [0, 1]]),
        max_num_drafts=2,
    )
    drawn = [(box.marks["name"], box.lines[0], box.marks["state"]) for box in boxes_of(draw_case(case), "name")]
    assert drawn == [
        ("root", "root", "accepted"),
        ("draft 0", "token 1", "accepted"),
        ("draft 1", "token 0", "rejected"),
        ("bonus", "token 1", "bonus"),
    ]


def test_a_case_without_a_tree_and_slots_is_a_table():
    case = make_case("top_k_renorm", probabilities=f32([[0.5, 0.25, 0.25]]), top_k=i32([1]))
    texts = texts_of(draw_case(case))
    assert texts[1:] == [
        *("words", "arguments", "name", "probabilities", "top_k", "form", "float32 [1, 3]", "int32 [1]"),
        *("entries", "[[0.5, 0.25, 0.25]]", "[1]"),
    ]


def test_text_of_a_case_is_text_and_ids_are_those_of_the_prefix():
    planted = '</desc></svg><script>alert(1)</script><a href="x">'
    case = replace(verify_case(), property_name=planted, message=planted, observed=Observation(error=planted))
    svg = draw_case(case, prefix="case-1-")
    assert "script" not in tags_of(svg) and "a" not in tags_of(svg)
    assert texts_of(svg).count(planted) == 2
    assert planted in words_of(svg)[0]
    assert ids_of(svg) == ["case-1-title", "case-1-desc"]


def test_a_notebook_shows_a_case():
    assert bonus_case()._repr_svg_() == draw_case(bonus_case())


def test_large_batches_and_trees_are_cut():
    accept_tokens, counts = np.ones((500, 2), dtype=np.int32), np.full(500, 2, dtype=np.int32)
    svg = draw_case(make_case("fill_bonus_tokens", accept_tokens=accept_tokens, num_accepted_tokens=counts))
    assert "492 more requests are not drawn" in texts_of(svg)
    links = i64([[*range(1, 1000), -1]])
    case = verify_case()
    arguments = {**case.arguments, "retrieve_next_token": links, "retrieve_next_sibling": np.full((1, 1000), -1)}
    texts = texts_of(draw_case(replace(case, arguments=arguments)))
    assert "request 0 has 1000 nodes; up to 256 are drawn" in texts


@pytest.mark.parametrize("operation", RECORDS)
def test_a_call_of_any_operation_is_drawn_and_is_the_same_again(operation):
    """Nothing of a call in the domain is taken for arrays of another form."""

    def is_table(arguments):
        case = make_case(operation, **arguments)
        svg = draw_case(case)
        assert svg == draw_case(replace(case, arguments={**case.arguments}))
        texts = texts_of(svg)
        assert not [text for text in texts if text.startswith("arrays of another form")]
        return "arguments" in texts

    if operation in WITHOUT_DRAWING:
        assert all(is_table(arguments) for _, arguments in zip(range(3), some_calls(operation), strict=False))
    else:
        some_calls(operation).first(lambda arguments: not is_table(arguments))


SPOILT = (
    None,
    3,
    np.zeros(0),
    np.zeros((1, 0), dtype=np.int64),
    np.full((2, 2), -7),
    np.array([[1 << 62]]),
    np.array([np.nan, np.inf]),
    np.ones((2, 3, 3), dtype=bool),
    [np.zeros(2)],
    "text",
)


@settings(max_examples=60)
@given(st.sampled_from(sorted(RECORDS)), st.integers(0, 2**32 - 1))
def test_a_case_of_any_arrays_is_drawn(operation, seed):
    random = np.random.default_rng(seed)
    case = make_case(operation, **next(iter(some_calls(operation))))

    def spoilt(arrays):
        return {
            name: SPOILT[random.integers(len(SPOILT))] if random.random() < 0.3 else value
            for name, value in arrays.items()
        }

    expected, observed = (Observation(spoilt(case.expected.outputs)) for _ in range(2))
    svg = draw_case(replace(case, arguments=spoilt(case.arguments), expected=expected, observed=observed))
    assert root_of(svg).get("role") == "img"
