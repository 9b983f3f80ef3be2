"""Draft: choose candidates and prune them. Ranking the entries of a row stands in ``topk.py``."""

import torch

from specsim.counts import count_candidates, count_draft_nodes
from specsim.gpu.kernels import draft as kernels
from specsim.gpu.launching.blocks import ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of
from specsim.gpu.topk import LARGEST_BLOCK, fast_topk, ranking_warps, takes_maxima
from specsim.validation import check_structure

__all__ = [
    "fast_topk",
    "map_hot_tokens",
    "organize_chain_draft_results",
    "organize_draft_results",
    "select_top_k_tokens",
]

COPIES = 128
"""Requests whose chain one program copies: one a thread of four warps."""

IDS = 256
"""Ids that a program maps: two a thread of four warps."""

MOST_STEPS = 32
"""Steps that one kernel is unrolled for: Triton compiles 32 of them within 4 seconds, and needs 18 for 64."""

LEAST_HIDDEN_BLOCK = 16
"""Hidden columns that a program copies at least, so that a line of the cache is not cut."""


@operation
def select_top_k_tokens(call: Call) -> Launch | None:
    """Choose the beams of the next depth and emit the tree blocks of this depth; one launch."""
    axes, arguments = call.axes, call.arguments
    # NOTE: the rule reads no entries, and a kernel that breaks it cannot be compiled.
    check_structure("select_top_k_tokens", arguments, axes)
    num_requests, step_index, topk = axes["request"], axes["step_index"], axes["topk"]
    if num_requests == 0:
        return None
    hidden_states, is_first = arguments["hidden_states"], step_index == 0
    inputs = call.contiguous("topk_p", "topk_index", *([] if is_first else ["scores"]))
    absent = ["scores_ptr"] if is_first else []
    hidden_size, hidden_strides = 0, (0, 0)
    if hidden_states is None:
        absent += ["hidden_states_ptr", "next_hidden_states_ptr"]
    else:
        inputs["hidden_states"] = hidden_states
        hidden_size, hidden_strides = hidden_states.shape[1], hidden_states.stride()
    width = power_of_two(topk)
    block = power_of_two(topk if is_first else topk * topk)
    hidden_block = choose_block(hidden_size, max(LARGEST_BLOCK // width, LEAST_HIDDEN_BLOCK))
    return Launch(
        Plan(
            kernels._select_top_k_tokens_kernel,
            grid=(num_requests, max(1, ceil_div(hidden_size, hidden_block))),
            sizes={"step_index": step_index, "hidden_size": hidden_size, "hidden_strides": hidden_strides},
            constants={
                "TOPK": topk,
                "WIDTH": width,
                "BLOCK": block,
                "IS_FIRST": is_first,
                "HAS_HIDDEN": bool(hidden_size),
                **dict.fromkeys(absent),
            },
            tunables={"HIDDEN_BLOCK": hidden_block, "ONE_BY_ONE": takes_maxima(topk)},
            num_warps=ranking_warps(block, num_requests),
        ),
        inputs=inputs,
        outputs=call.returned(),
    )


@operation
def organize_draft_results(call: Call) -> Launch | None:
    """Keep the N-1 best candidates of all depths, in flat-id order; one program a request.

    More than 4096 candidates a request, or more than 32 steps, go through ``fast_topk`` block by block.
    """
    axes = call.axes
    num_requests, num_steps, topk, num_kept = (
        axes["request"],
        axes["step"],
        axes["topk"],
        count_draft_nodes(axes["node"]),
    )
    if num_requests == 0:
        return None
    num_candidates = count_candidates(topk, num_steps)
    if num_candidates > LARGEST_BLOCK or num_steps > MOST_STEPS:
        _organize_by_topk(call)
        return None
    block = power_of_two(num_candidates)
    return Launch(
        Plan(
            kernels._organize_draft_results_kernel,
            grid=(num_requests,),
            sizes={},
            constants={
                "NUM_STEPS": num_steps,
                "TOPK": topk,
                "NUM_KEPT": num_kept,
                "WIDTH": power_of_two(num_kept),
                "BLOCK": block,
                "PARENT_BLOCK": power_of_two(topk + 1),
            },
            tunables={"ONE_BY_ONE": takes_maxima(num_kept)},
            num_warps=ranking_warps(block, num_requests),
        ),
        inputs={
            name: tuple(entry.contiguous() for entry in call.arguments[name])
            for name in ("score_list", "token_list", "parents_list")
        },
        outputs=call.returned(),
    )


def _organize_by_topk(call: Call) -> None:
    arguments, outputs = call.arguments, call.outputs
    scores = torch.cat([scores.flatten(1) for scores in arguments["score_list"]], dim=1)
    kept = fast_topk(scores, outputs.top_scores_index.shape[1]).topk_index
    outputs.top_scores_index.copy_(kept.sort(dim=1).values)
    tokens = torch.cat(list(arguments["token_list"]), dim=1)
    torch.gather(tokens, 1, outputs.top_scores_index, out=outputs.draft_tokens)
    torch.cat(list(arguments["parents_list"][:-1]), dim=1, out=outputs.parent_list)


@operation
def organize_chain_draft_results(call: Call) -> Launch | None:
    """Organise the drafts of a chain, where nothing is pruned; one launch."""
    num_requests = call.axes["request"]
    if num_requests == 0:
        return None
    block = choose_block(num_requests, COPIES)
    return Launch(
        Plan(
            kernels._organize_chain_draft_results_kernel,
            grid=(ceil_div(num_requests, block),),
            sizes={"num_requests": num_requests},
            constants={"NUM_STEPS": call.axes["step"]},
            tunables={"BLOCK": block},
        ),
        inputs={"token_list": tuple(entry.contiguous() for entry in call.arguments["token_list"])},
        outputs=call.returned(),
    )


@operation
def map_hot_tokens(call: Call) -> Launch | None:
    """Map draft-vocabulary ids to target-vocabulary ids; an id outside the draft vocabulary maps to 0."""
    topk_index, num_columns = call.arguments["topk_index"], call.axes["column"]
    num_entries = call.axes["row"] * num_columns
    if num_entries == 0:
        return None
    block = choose_block(num_entries, IDS)
    return Launch(
        Plan(
            kernels._map_hot_tokens_kernel,
            grid=(ceil_div(num_entries, block),),
            sizes={
                "num_entries": num_entries,
                "num_columns": num_columns,
                "draft_vocab": call.axes["draft_vocab"],
                **strides_of(topk_index, "row", "column"),
            },
            tunables={"BLOCK": block},
        ),
        inputs={"topk_index": topk_index, **call.contiguous("hot_token_id")},
        outputs=call.returned(),
    )
