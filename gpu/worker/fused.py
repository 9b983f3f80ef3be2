"""What a worker launches around a verify, in the place of several operations one after another."""

from typing import Any

from torch import Tensor

from specsim.contracts.contract import Contract, Defined, Unit, array, flag
from specsim.gpu import verify
from specsim.gpu.kernels import worker as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import fused
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.pointers import words_of
from specsim.operations.shared import (
    ACCEPT_INDEX,
    NUM_ACCEPTED_DRAFTS,
    NUM_DRAFT_TOKENS,
    OUT_CACHE_LOC,
    PAGE_SIZE,
    POSITIONS,
    PREDICT,
    REQ_POOL_INDICES,
    REQ_TO_TOKEN,
    seq_lens,
)

WORDS = 512
"""Words of a field that a program copies at a time: four a thread of four warps."""

TILE, NODES = 1024, 256
"""Words of nodes that a program copies, eight a thread of four warps, and the most nodes of one: two a thread."""

PLACES = 128
"""Places of paths of a program: one a thread of four warps."""

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
