"""Laws of attention metadata for trees: which keys the nodes of a request are handed."""

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Case, joined, outputs_of, require_equal, require_one_by_one, states
from specsim.properties.operations.attention import strategy as strategies
from specsim.properties.strategies.arrays import bulk
from specsim.properties.strategies.topologies import TREE_KINDS, tree_of_kind
from specsim.topology import Topology

_CASCADE = "verify_cascade_metadata"
_CUSTOM = "verify_custom_mask_metadata"
_EXTEND = "verify_extend_metadata"
_IDLE = "idle_attention_metadata"
_VERIFY, _RAGGED = "target_verify_metadata", "generate_attn_arg_prefill"
_ROWS = ("req_pool_indices", "seq_lens")


def first_pass_is_the_prefix(backend: Backend, case: Case) -> None:
    """The first pass has the committed lengths, one block of queries a request, and its first pages."""
    got = outputs_of(backend, _CASCADE, case)
    count, width = len(case["seq_lens"]), case["num_draft_tokens"]
    require_equal("cache_seqlens", got["cache_seqlens"], case["seq_lens"])
    require_equal("cu_seqlens_q", got["cu_seqlens_q"], np.arange(count + 1) * width)
    starts = case["req_to_token"][case["req_pool_indices"], : case["max_prefix_len"] : case["page_size"]]
    require_equal("page_table", got["page_table"] * case["page_size"], starts - starts % case["page_size"])


def second_pass_is_the_ancestors(backend: Backend, case: tuple[Case, list[Topology]]) -> None:
    """A node's own list names its ancestors and itself, in order, and then everybody else, in order."""
    arguments, trees = case
    got = outputs_of(backend, _CASCADE, arguments)
    width = arguments["num_draft_tokens"]
    for request, tree in enumerate(trees):
        row = arguments["req_to_token"][arguments["req_pool_indices"][request]]
        window = row[int(arguments["seq_lens"][request]) :][:width]
        for node in range(width):
            seen = tree.path_to(node)
            others = [other for other in range(width) if other not in seen]
            place = request * width + node
            require_equal(f"keys of node {node}", got["expand_cache_seqlens"][place], len(seen))
            require_equal(f"slots of node {node}", got["expand_page_table"][place], window[seen + others])


def passes_are_made_one_by_one(backend: Backend, case: Case) -> None:
    """A request's part of both passes is the same alone, and in any order of the batch."""
    width = case["num_draft_tokens"]
    sizes = {"tree_mask": [width * (length + width) for length in case["seq_lens"].tolist()]}
    made = ("page_table", "expand_cache_seqlens", "expand_page_table")
    require_one_by_one(backend, _CASCADE, case, made, counts=sizes)


def keys_are_prefix_and_window(backend: Backend, case: Case) -> None:
    """A request's keys are the slots of its committed positions and of its window, one request after another."""
    got = outputs_of(backend, _CUSTOM, case)
    require_keys(case, got, [length + case["num_draft_tokens"] for length in case["seq_lens"].tolist()])


def mask_is_continued_by_visible_entries(backend: Backend, case: Case) -> None:
    """The mask comes back as it is, up to what the requests need; where it lacks the end, everything is visible."""
    got = outputs_of(backend, _CUSTOM, case)["custom_mask"]
    width, count = case["num_draft_tokens"], len(case["seq_lens"])
    needed = width * int(case["seq_lens"].sum()) + width * width * count
    given = case["tree_mask"][:needed]
    require_equal("custom_mask", got[:needed], np.concatenate([given, np.ones(needed - len(given), dtype=np.bool_)]))


def keys_are_the_prefix_alone(backend: Backend, case: Case) -> None:
    """A request's keys are the slots of its committed positions; its window goes through the mask."""
    require_keys(case, outputs_of(backend, _EXTEND, case), case["seq_lens"].tolist())


def mask_offsets_count_rows_of_prefix_and_window(backend: Backend, case: Case) -> None:
    """A request's mask has N rows of its length and N entries."""
    got = outputs_of(backend, _EXTEND, case)["mask_indptr"]
    width = case["num_draft_tokens"]
    require_equal("the sizes of the masks", np.diff(got), width * (case["seq_lens"].astype(np.int64) + width))
    require_equal("the first offset", got[:1], [0])


def idle_rows_have_one_query_and_plain_lengths(backend: Backend, case: Case) -> None:
    """A dummy row has its length as keys, one more where a chain is drafted, its own pages, and one query.

    Without a row there is nothing but the first offset.
    """
    idle = {**case, **{name: case[name][:0] for name in _ROWS}}
    for name in ("cu_seqlens_q", "cu_seqlens_k"):
        require_equal(f"{name} of nothing", outputs_of(backend, _IDLE, idle)[name], [0])
    got = outputs_of(backend, _IDLE, case)
    lengths = np.asarray(case["seq_lens"], dtype=np.int64) + case["num_new_keys"]
    require_equal("cache_seqlens", got["cache_seqlens"], lengths)
    require_equal("cu_seqlens_q", got["cu_seqlens_q"], np.arange(len(lengths) + 1))
    require_equal("cu_seqlens_k", got["cu_seqlens_k"], np.cumsum([0, *lengths]))
    starts = case["req_to_token"][case["req_pool_indices"], : case["max_seq_len_k"] : case["page_size"]]
    require_equal("page_table", got["page_table"] * case["page_size"], starts - starts % case["page_size"])


def an_idle_draft_of_a_chain_is_a_verify_of_one_token(backend: Backend, case: Case) -> None:
    """With one new key the metadata is that of a target forward over one token a request."""
    rows = {**case, "num_new_keys": 1, "max_seq_len_k": case["req_to_token"].shape[1]}
    idle = outputs_of(backend, _IDLE, rows)
    del rows["num_new_keys"]
    for name, values in outputs_of(backend, _VERIFY, {**rows, "num_tokens": len(case["seq_lens"])}).items():
        require_equal(name, idle[name], values)


def idle_keys_are_those_of_a_ragged_extend(backend: Backend, case: Case) -> None:
    """Keys as a list are those of an extend of one token a row, with room up to any bound on their sum."""
    idle = outputs_of(backend, _IDLE, {**case, "num_new_keys": 0, "page_size": 1})
    lengths = np.asarray(case["seq_lens"], dtype=np.int64)
    counts = {"kv_lens": case["seq_lens"], "num_accepted_tokens": np.ones(len(lengths), dtype=np.int32)}
    rows = {name: case[name] for name in ("req_pool_indices", "req_to_token")}
    room = len(lengths) * case["req_to_token"].shape[1]
    listed = outputs_of(backend, _RAGGED, {**rows, **counts, "kv_lens_sum": room})
    require_equal("cu_seqlens_q", idle["cu_seqlens_q"], listed["qo_indptr"])
    require_equal("cu_seqlens_k", idle["cu_seqlens_k"], listed["kv_indptr"])
    slots = joined([row[:length] for row, length in zip(idle["page_table"], lengths.tolist(), strict=True)])
    require_equal("kv_indices", listed["kv_indices"][: len(slots)], slots)


def require_keys(case: Case, got: Case, counts: list[int]) -> None:
    """Raise AssertionError unless every request has its block of queries and the first so many slots of its row."""
    require_equal("qo_indptr", got["qo_indptr"], np.arange(len(case["seq_lens"]) + 1) * case["num_draft_tokens"])
    require_equal("kv_indptr", got["kv_indptr"], np.cumsum([0, *counts]))
    slots = [row[:count] for row, count in zip(case["req_to_token"][case["req_pool_indices"]], counts, strict=True)]
    require_equal("kv_indices", got["kv_indices"][: sum(counts)], joined(slots))


@composite
def _trees(draw: st.DrawFn) -> tuple[Case, list[Topology]]:
    case = draw(strategies.verify_cascade_metadata())
    source, count = draw(bulk()), len(case["seq_lens"])
    kinds = draw(st.lists(st.sampled_from(TREE_KINDS), min_size=count, max_size=count))
    trees = [tree_of_kind(kind, case["num_draft_tokens"], source) for kind in kinds]
    masks = [strategies.full_mask(tree, length) for tree, length in zip(trees, case["seq_lens"].tolist(), strict=True)]
    return {**case, "tree_mask": np.concatenate([case["tree_mask"][:0], *masks])}, trees


_idle = strategies.idle_attention_metadata


@composite
def _idle_rows(draw: st.DrawFn) -> Case:
    """Draw dummy rows that all have a key, which an extend of one token needs."""
    case = draw(_idle().filter(lambda case: case["req_to_token"].shape[1] > 1))
    return {**case, "seq_lens": np.maximum(case["seq_lens"], 1), "max_seq_len_k": case["req_to_token"].shape[1]}


PROPERTIES = states(
    "attention",
    (first_pass_is_the_prefix, _CASCADE, "P51"),
    (second_pass_is_the_ancestors, _trees, _CASCADE, "P16"),
    (passes_are_made_one_by_one, _CASCADE, "P31"),
    (keys_are_prefix_and_window, _CUSTOM, "P51"),
    (mask_is_continued_by_visible_entries, _CUSTOM, "P16"),
    (keys_are_the_prefix_alone, _EXTEND, "P51"),
    (mask_offsets_count_rows_of_prefix_and_window, _EXTEND, "P51"),
    (idle_rows_have_one_query_and_plain_lengths, _IDLE, "P32"),
    (an_idle_draft_of_a_chain_is_a_verify_of_one_token, (_IDLE, _VERIFY), "P32"),
    (idle_keys_are_those_of_a_ragged_extend, _idle_rows, (_IDLE, _RAGGED), "P32"),
)
