"""What a worker launches while it drafts, in the place of several operations one after another."""

import torch

from specsim.config import MOST_NODES
from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array
from specsim.counts import count_candidates, count_draft_nodes, page_size_of_beams
from specsim.gpu import draft_cache, tree
from specsim.gpu.draft import LEAST_HIDDEN_BLOCK, MOST_STEPS
from specsim.gpu.kernels import beams as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import fused
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan
from specsim.gpu.topk import LARGEST_BLOCK, rank, ranking_warps, takes_maxima
from specsim.operations import RECORDS
from specsim.operations.shared import (
    NUM_CANDIDATES,
    NUM_STEPS,
    PAGE_SIZE,
    POSITIONS,
    REQ_POOL_INDICES,
    REQ_TO_TOKEN,
    RETRIEVE_INDEX,
    RETRIEVE_NEXT_SIBLING,
    RETRIEVE_NEXT_TOKEN,
    TOPK,
    seq_lens,
)

MOST_BEAMS = 16
"""Beams of a request whose candidates one program ranks, a maximum after another."""

_OPAQUE = Defined("length", "0")


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
        kernels._choose_beams_kernel,
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


@fused(
    Contract(
        (
            array("bonus_tokens", "int32|int64 [request]", Unit.TOKEN, within=("0", None)),
            *RECORDS["organize_draft_results"].contract.arrays,
            seq_lens(),
            TOPK,
            ScalarSpec("num_draft_tokens", axis="node", low="2", high=str(tree.WORD_BITS)),
        ),
        outputs=(
            array("draft_token", "int64 [request*node]", Unit.TOKEN),
            RETRIEVE_INDEX,
            RETRIEVE_NEXT_TOKEN,
            RETRIEVE_NEXT_SIBLING,
            POSITIONS,
            array("tree_mask", "bool [request*node*node]", Unit.VISIBLE),
        ),
        requires=(
            Requirement(f"node-1 <= {NUM_CANDIDATES}", "no more drafts can be kept than were proposed"),
            Requirement(f"{NUM_CANDIDATES} <= {LARGEST_BLOCK} and step <= {MOST_STEPS}", "one program ranks them all"),
        ),
    ),
    "semantics A.5, A.7",
)
def plant_trees(call: Call) -> Launch | None:
    """Prune candidates and build trees of the best, with a mask of the window.

    One launch for ``organize_draft_results`` and ``build_tree``; a program owns a request, and reads what it has kept.
    """
    axes, given, outputs = call.axes, call.arguments, call.outputs
    num_requests, topk, num_steps, num_nodes = (axes[name] for name in ("request", "topk", "step", "node"))
    if num_requests == 0:
        return None
    num_kept, nodes = count_draft_nodes(num_nodes), power_of_two(num_nodes)
    block = power_of_two(count_candidates(topk, num_steps))
    kept = [(num_requests, max(topk * (num_steps - 1) + 1, 1)), (num_requests, num_kept), (num_requests, num_kept)]
    lists = ("score_list", "token_list", "parents_list")
    return Launch(
        Plan(
            kernels._plant_trees_kernel,
            grid=(num_requests,),
            sizes={"num_nodes": num_nodes},
            constants={
                "NUM_STEPS": num_steps,
                "TOPK": topk,
                "NUM_KEPT": num_kept,
                "WIDTH": power_of_two(num_kept),
                "BLOCK": block,
                "PARENT_BLOCK": power_of_two(topk + 1),
                # NOTE: each round doubles the ancestors that are known.
                "ROUNDS": (min(num_steps, num_nodes) - 1).bit_length(),
                "NODES": nodes,
            },
            tunables={"COMPARED": nodes, "ONE_BY_ONE": takes_maxima(num_kept)},
            num_warps=ranking_warps(block, num_requests),
        ),
        inputs={
            **{name: tuple(one.contiguous() for one in given[name]) for name in lists},
            **call.contiguous("bonus_tokens", "seq_lens"),
        },
        outputs={
            "draft_token": outputs.draft_token,
            "link": (
                outputs.retrieve_index,
                outputs.retrieve_next_token,
                outputs.retrieve_next_sibling,
                outputs.positions,
            ),
            "tree_mask": outputs.tree_mask.view(torch.uint8),
        },
        scratch={"kept": tuple(call.scratch(*shape, dtype=torch.int64) for shape in kept)},
    )
