"""What a worker launches in the place of several operations one after another, which it returns the same as."""

from typing import Any

from torch import Tensor

from specsim.config import MOST_NODES
from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array, flag
from specsim.counts import page_size_of_beams
from specsim.gpu import draft_cache, verify
from specsim.gpu.draft import LEAST_HIDDEN_BLOCK
from specsim.gpu.kernels import beams as kernels_of_beams
from specsim.gpu.kernels import worker as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import fused
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.pointers import words_of
from specsim.gpu.topk import LARGEST_BLOCK, rank, ranking_warps, takes_maxima
from specsim.operations import RECORDS
from specsim.operations.shared import (
    ACCEPT_INDEX,
    NUM_ACCEPTED_DRAFTS,
    NUM_DRAFT_TOKENS,
    NUM_STEPS,
    OUT_CACHE_LOC,
    PAGE_SIZE,
    POSITIONS,
    PREDICT,
    REQ_POOL_INDICES,
    REQ_TO_TOKEN,
    TOPK,
    seq_lens,
)

WORDS = 512
"""Words of a field that a program copies at a time: four a thread of four warps."""

TILE, NODES = 1024, 256
"""Words of nodes that a program copies, eight a thread of four warps, and the most nodes of one: two a thread."""

PLACES = 128
"""Places of paths of a program: one a thread of four warps."""

MOST_BEAMS = 64
"""Beams of a request whose candidates one program ranks."""

_OPAQUE = Defined("length", "0")
_FIELDS = array("fields", "any [row, ...]", Unit.ANY, each="field", defined=_OPAQUE)
_ENTRIES = array("entries", "like fields [request, ...]", Unit.ANY, each="field", defined=_OPAQUE)


@fused(Contract((REQ_POOL_INDICES, _FIELDS, _ENTRIES), writes=("entries",)), "semantics J.2")
def gather_rows(call: Call) -> Launch | None:
    """Read the rows of a batch, of every field that waits by row; one launch over requests, words and fields."""
    return _copy_rows(call, gathers=True)


@fused(Contract((REQ_POOL_INDICES, _FIELDS, _ENTRIES), writes=("fields",)), "semantics J.2")
def scatter_rows(call: Call) -> Launch | None:
    """Write the rows of a batch, of every field that waits by row, but row 0, which pads batches; one launch."""
    return _copy_rows(call, gathers=False)


def _copy_rows(call: Call, gathers: bool) -> Launch | None:
    axes, given = call.axes, call.arguments
    pairs = [
        _alike(field, entry) for field, entry in zip(given["fields"], given["entries"], strict=True) if entry.numel()
    ]
    if not pairs:
        return None
    widths = tuple(field.shape[1] for field, _ in pairs)
    words = choose_block(max(widths), WORDS, LARGEST_TILE)
    requests = choose_block(axes["request"], max(1, WORDS // words), max(1, LARGEST_TILE // words))
    copied: dict[str, Any] = {"field": tuple(one for one, _ in pairs), "entry": tuple(one for _, one in pairs)}
    read, written = ("field", "entry") if gathers else ("entry", "field")
    return Launch(
        Plan(
            kernels._copy_rows_kernel,
            grid=(ceil_div(axes["request"], requests), ceil_div(max(widths), words), len(pairs)),
            sizes={"widths": widths, "num_requests": axes["request"], "num_rows": axes["row"]},
            constants={"NUM_FIELDS": len(pairs), "GATHERS": gathers},
            tunables={"REQUESTS": requests, "WORDS": words},
        ),
        inputs={read: copied[read], **call.contiguous("req_pool_indices")},
        outputs={written: copied[written]},
    )


def _alike(field: Tensor, entry: Tensor) -> tuple[Tensor, Tensor]:
    """View rows of a field, and what is copied from or to them, as words of one width."""
    pair = words_of(field), words_of(entry.contiguous())
    word = min(pair[0].dtype, pair[1].dtype, key=lambda one: one.itemsize)
    return pair[0].view(word), pair[1].view(word)


@fused(
    Contract(
        (PREDICT, ACCEPT_INDEX, NUM_ACCEPTED_DRAFTS, OUT_CACHE_LOC),
        outputs=(
            array("num_accepted_tokens", "int32 [request]", Unit.COUNT),
            array("bonus_tokens", "int32 [request]", Unit.TOKEN),
            array("source_slots", "int64 [request*(draft+1)]", Unit.SLOT),
            array("target_slots", "int64 [request*(draft+1)]", Unit.SLOT),
        ),
    ),
    "semantics 0.5, C.3, C.4",
)
def finish_paths(call: Call) -> Launch | None:
    """Count the tokens of accepted paths, pick their last ones, and list where their KV is and where it goes.

    One launch for ``gather_accept_tokens``, ``fill_bonus_tokens``, ``fill_accept_out_cache_loc`` and
    ``fill_accept_target_cache_loc``; a program owns a block of requests and counts what those before it accept.
    """
    axes = call.axes
    if axes["request"] == 0:
        return None
    places = power_of_two(axes["draft"] + 1)
    requests = choose_block(axes["request"], max(1, PLACES // places), LARGEST_TILE // places)
    return Launch(
        Plan(
            kernels._finish_paths_kernel,
            grid=(ceil_div(axes["request"], requests),),
            sizes={"num_requests": axes["request"], "num_nodes": axes["node"], "width": axes["draft"] + 1},
            constants={"PLACES": places, "EVERYONE": power_of_two(axes["request"])},
            tunables={"REQUESTS": requests},
        ),
        inputs=call.contiguous("predict", "accept_index", "num_accepted_drafts", "out_cache_loc"),
        outputs=call.returned(),
    )


@fused(
    Contract(
        (
            PREDICT,
            array("hidden_states", "any [request*node, ...]", Unit.ANY, optional=True, defined=_OPAQUE),
            ACCEPT_INDEX,
            array("num_accepted_tokens", "int32 [request]", Unit.COUNT, within=("1", "node")),
            seq_lens(),
            NUM_DRAFT_TOKENS,
            flag("is_chain", False),
        ),
        outputs=(
            array("input_ids", "int64 [request*node]", Unit.TOKEN),
            array("tokens", "int32 [request*node]", Unit.TOKEN),
            array("compacted", "like hidden_states [request*node, ...]", Unit.ANY, optional=True),
            POSITIONS,
            array("forward_seq_lens", "int64 [request]", Unit.COUNT),
            array("select_index", "int64 [request]", Unit.NODE),
            array("committed_lens", "int64 [request]", Unit.COUNT),
        ),
    ),
    "semantics C.5, D.6",
)
def compact_paths(call: Call) -> Launch | None:
    """Bring ids and hidden states of accepted paths to the front, and lay out the extend; a chain has them there.

    One launch for ``compact_accepted_to_front`` of both and ``prepare_for_extend_to_fill_draft_kvcache``; a program
    owns a tile of nodes and words.
    """
    axes, given, outputs = call.axes, call.arguments, call.returned()
    num_rows = axes["request"] * axes["node"]
    if num_rows == 0:
        return None
    inputs = call.contiguous("predict", "accept_index", "num_accepted_tokens", "seq_lens")
    num_words, absent = 0, ["hidden_states_ptr", "compacted_ptr"]
    if given["hidden_states"] is not None and given["hidden_states"].numel():
        outputs["compacted"], inputs["hidden_states"] = _alike(outputs["compacted"], given["hidden_states"])
        num_words, absent = outputs["compacted"].shape[1], []
    words = choose_block(num_words, WORDS, LARGEST_TILE)
    rows = choose_block(num_rows, max(1, min(NODES, TILE // words)), max(1, LARGEST_TILE // words))
    return Launch(
        Plan(
            kernels._compact_paths_kernel,
            grid=(ceil_div(num_rows, rows), max(1, ceil_div(num_words, words))),
            sizes={
                "num_rows": num_rows,
                "num_nodes": axes["node"],
                "width": axes["draft"] + 1,
                "num_words": num_words,
            },
            constants={"IS_CHAIN": bool(axes["is_chain"]), **dict.fromkeys(absent)},
            tunables={"ROWS": rows, "WORDS": words},
        ),
        inputs=inputs,
        outputs=outputs,
    )


@fused(
    Contract(
        (
            REQ_POOL_INDICES,
            REQ_TO_TOKEN,
            seq_lens("position-topk*step"),
            TOPK,
            NUM_STEPS,
            PAGE_SIZE,
            ScalarSpec("num_copies", low="0", default=0),
        ),
        outputs=(
            array("positions", "int64 [step, request*topk]", Unit.POSITION),
            array("step_cache_loc", "int64 [step, request*topk]", Unit.SLOT),
            array("source_slots", "int64 [num_copies]", Unit.SLOT),
            array("target_slots", "int64 [num_copies]", Unit.SLOT),
            array("kv_indices", "int32 [step, request*topk*position]", Unit.SLOT),
            array("kv_indptr", "int32 [step, request*topk+1]", Unit.OFFSET),
        ),
        requires=(Requirement("request*topk*position < 2**31", "kv_indptr counts in int32"),),
    ),
    "semantics A.9, A.10, A.11",
)
def lay_out_beams(call: Call) -> Launch | None:
    """Lay out what the steps of a draft read and write: positions, slots, copies of paged beams, and keys.

    One launch for ``assign_draft_cache_locs``, ``per_step_draft_out_cache_loc`` and
    ``generate_draft_decode_kv_indices``; a program owns a block of beams, of copies, or of keys.
    """
    axes, given, outputs = call.axes, call.arguments, call.outputs
    num_requests, topk, num_steps, num_copies = (axes[name] for name in ("request", "topk", "step", "num_copies"))
    if num_requests == 0:
        outputs.kv_indptr.zero_()
        return None
    beams = choose_block(num_requests * topk * num_steps, draft_cache.SLOTS)
    requests = choose_block(num_requests, draft_cache.REQUESTS, draft_cache.INTERPRETED_REQUESTS)
    copies = choose_block(num_copies, draft_cache.COPIES, max(1, LARGEST_TILE // requests))
    pairs = choose_block(topk * num_steps, draft_cache.PAIRS)
    keys = choose_block(axes["position"], draft_cache.KEYS, draft_cache.INTERPRETED_KEYS)
    num_groups = num_requests * ceil_div(topk * num_steps, pairs)
    num_chunks = chunks_to_fill(num_groups, ceil_div(axes["position"], keys))
    blocks = ceil_div(num_requests * topk * num_steps, beams), ceil_div(num_copies, copies), num_chunks
    rows = given["req_to_token"]
    return Launch(
        Plan(
            kernels._lay_out_beams_kernel,
            grid=(blocks[0] + blocks[1] + num_groups * num_chunks,),
            sizes={
                "num_requests": num_requests,
                "num_copies": num_copies,
                "blocks": blocks,
                "rows": (axes["row"], axes["position"], *rows.stride()),
            },
            constants={
                "TOPK": topk,
                "NUM_STEPS": num_steps,
                "PAGE_SIZE": page_size_of_beams(topk, axes["page_size"]),
                "OWN": power_of_two(num_steps),
                "EVERYONE": power_of_two(num_requests),
            },
            tunables={"BEAMS": beams, "COPIES": copies, "REQUESTS": requests, "PAIRS": pairs, "KEYS": keys},
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs={
            "beam": (outputs.positions, outputs.step_cache_loc),
            "copy": (outputs.source_slots, outputs.target_slots),
            "key": (outputs.kv_indices, outputs.kv_indptr),
        },
    )


@fused(
    Contract(
        (REQ_POOL_INDICES, REQ_TO_TOKEN, seq_lens("position-node"), NUM_DRAFT_TOKENS, PAGE_SIZE),
        outputs=(
            array("out_cache_loc", "int64 [request*node]", Unit.SLOT),
            array("cache_seqlens", "int32 [request]", Unit.COUNT),
            array("cu_seqlens_q", "int32 [request+1]", Unit.OFFSET),
            array("page_table", "int32 [request, -(-position//page_size)]", Unit.SLOT),
        ),
    ),
    "semantics B.3, C.8",
)
def lay_out_nodes(call: Call) -> Launch | None:
    """Lay out what a forward over the next positions of each request reads and writes.

    One launch for ``assign_extend_cache_locs`` and ``target_verify_metadata``, over requests and blocks of their rows.
    """
    axes, rows = call.axes, call.arguments["req_to_token"]
    if axes["request"] == 0:
        call.outputs.cu_seqlens_q.zero_()
        return None
    num_pages = call.outputs.page_table.shape[1]
    block = choose_block(num_pages, verify.PAGES)
    return Launch(
        Plan(
            kernels._lay_out_nodes_kernel,
            grid=(axes["request"], max(1, ceil_div(num_pages, block))),
            sizes={
                "num_nodes": axes["node"],
                "num_pages": num_pages,
                "rows": (axes["row"], axes["position"], *rows.stride()),
            },
            constants={"NODES": power_of_two(axes["node"]), "PAGE_SIZE": axes["page_size"]},
            tunables={"BLOCK": block},
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )


@fused(
    Contract(
        (
            ScalarSpec("step_index", axis="step_index", low="0", high=str(MOST_NODES)),
            array("values", "float32 [request*branch, column]", Unit.SCORE),
            array("hot_token_id", "int64 [draft_vocab]", Unit.TOKEN, within=("0", None), optional=True),
            array("hidden_states", "any [request*branch, hidden]", Unit.ANY, optional=True, defined=_OPAQUE),
            array("scores", "float32 [request, topk]", Unit.SCORE, within=("0", None), optional=True),
            ScalarSpec("topk", axis="topk", low="1", high=str(MOST_BEAMS)),
        ),
        outputs=RECORDS["select_top_k_tokens"].contract.outputs,
        derived=RECORDS["select_top_k_tokens"].contract.derived,
        requires=(
            Requirement("topk <= column", "a branch proposes as many tokens"),
            Requirement("column <= draft_vocab", "every token that is proposed has an id"),
        ),
    ),
    "semantics A.2, A.3, A.12",
)
def choose_beams(call: Call) -> list[Launch]:
    """Rank what branches propose, map it to ids of the target, and choose the beams of the next depth.

    ``fast_topk``, ``map_hot_tokens`` and ``select_top_k_tokens``; long rows are reduced by the first of them until one
    program ranks all branches of a request. That one is launched for every share of hidden columns.
    """
    axes, given, outputs = call.axes, call.arguments, call.returned()
    num_requests, topk, scores = axes["request"], axes["topk"], given["scores"]
    is_first = axes["step_index"] == 0 or scores is None
    if num_requests == 0:
        return []
    values, hidden, width = given["values"], given["hidden_states"], power_of_two(topk)
    branches = 1 if is_first else width
    launches, keys = rank(call, values, topk, {}, LARGEST_BLOCK // branches)
    num_columns = (values if keys is None else keys).shape[1]
    taken = [name for name in ("hot_token_id", "scores") if given[name] is not None]
    inputs = {"values": values, **call.contiguous(*taken)}
    hidden_size, hidden_strides = 0, (0, 0)
    if hidden is not None and hidden.shape[1]:
        inputs["hidden_states"], hidden_size, hidden_strides = hidden, hidden.shape[1], hidden.stride()
    hidden_block = choose_block(hidden_size, max(LARGEST_BLOCK // width, LEAST_HIDDEN_BLOCK))
    scratch = {} if keys is None else {"keys": keys}
    absent = {"keys", "hot_token_id", "scores", "hidden_states"} - {*inputs, *scratch}
    absent |= {"next_hidden_states"} if "hidden_states" in absent else set()
    num_shares = max(1, ceil_div(hidden_size, hidden_block))
    block = power_of_two(num_columns)
    plan = Plan(
        kernels_of_beams._choose_beams_kernel,
        grid=(num_requests, num_shares),
        sizes={
            "step_index": axes["step_index"],
            "columns": (num_columns, axes.get("draft_vocab", 0)),
            "value_strides": values.stride(),
            "hidden_size": hidden_size,
            "hidden_strides": hidden_strides,
        },
        constants={
            "TOPK": topk,
            "WIDTH": width,
            "BLOCK": block,
            "IS_FIRST": is_first,
            **{f"{name}_ptr": None for name in sorted(absent)},
        },
        tunables={"HIDDEN_BLOCK": hidden_block, "ONE_BY_ONE": takes_maxima(topk)},
        num_warps=ranking_warps(branches * block, num_requests * num_shares),
    )
    blocks = tuple(outputs.pop(name) for name in ("score_block", "token_block", "parent_block"))
    return [*launches, Launch(plan, inputs, {**outputs, "block": blocks}, scratch)]
