"""Draft: choose candidates and prune them. Ranking the entries of a row stands in ``topk.py``."""

from collections.abc import Sequence

import torch

from specsim.counts import count_candidates, count_draft_nodes
from specsim.gpu.kernels import draft as kernels
from specsim.gpu.launching.blocks import ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.gpu.topk import LARGEST_BLOCK, fast_topk, launch_fast_topk, ranking_warps, takes_maxima
from specsim.operations.outputs import (
    OrganizeChainDraftResultsOutputs,
    OrganizeDraftResultsOutputs,
    SelectTopKTokensOutputs,
)
from specsim.validation import check_structure

__all__ = [
    "fast_topk",
    "launch_fast_topk",
    "launch_map_hot_tokens",
    "launch_organize_chain_draft_results",
    "launch_organize_draft_results",
    "launch_select_top_k_tokens",
    "map_hot_tokens",
    "organize_chain_draft_results",
    "organize_draft_results",
    "select_top_k_tokens",
]

COPIES = 128
"""Requests whose chain one program copies: one a thread of four warps."""

IDS = 256
"""Ids that a program maps: two a thread of four warps."""

LEAST_HIDDEN_BLOCK = 16
"""Hidden columns that a program copies at least, so that a line of the cache is not cut."""


def select_top_k_tokens(
    step_index: int,
    topk_p: torch.Tensor,
    topk_index: torch.Tensor,
    hidden_states: torch.Tensor | None,
    scores: torch.Tensor | None,
    topk: int,
) -> SelectTopKTokensOutputs[torch.Tensor]:
    """Choose the beams of the next depth and emit the tree blocks of this depth; one launch."""
    return run("select_top_k_tokens", launch_select_top_k_tokens, locals())


def launch_select_top_k_tokens(call: Call) -> SelectTopKTokensOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, arguments, outputs = call.axes, call.arguments, call.returned()
    # NOTE: the rule reads no entries, and a kernel that breaks it cannot be compiled.
    check_structure("select_top_k_tokens", arguments, axes)
    if axes["request"] == 0:
        return call.outputs
    hidden_states = arguments["hidden_states"]
    has_scores = axes["step_index"] > 0
    inputs = call.contiguous("topk_p", "topk_index", *(["scores"] if has_scores else []))
    if hidden_states is not None:
        inputs["hidden_states"] = hidden_states
    launch(
        _plan_select(
            axes["request"],
            axes["step_index"],
            axes["topk"],
            None if hidden_states is None else hidden_states.shape[1],
            (0, 0) if hidden_states is None else hidden_states.stride(),
            has_scores,
        ),
        inputs=inputs,
        outputs=outputs,
    )
    return call.outputs


@planned
def _plan_select(
    num_requests: int,
    step_index: int,
    topk: int,
    hidden_size: int | None,
    hidden_strides: tuple[int, int],
    has_scores: bool,
) -> Plan:
    width = power_of_two(topk)
    block = power_of_two(topk if step_index == 0 else topk * topk)
    hidden_block = choose_block(hidden_size or 0, max(LARGEST_BLOCK // width, LEAST_HIDDEN_BLOCK))
    absent = [] if has_scores else ["scores_ptr"]
    absent += ["hidden_states_ptr", "next_hidden_states_ptr"] if hidden_size is None else []
    return Plan(
        kernels._select_top_k_tokens_kernel,
        grid=(num_requests, max(1, ceil_div(hidden_size or 0, hidden_block))),
        sizes={
            "step_index": step_index,
            "hidden_size": hidden_size or 0,
            "hidden_row_stride": hidden_strides[0],
            "hidden_column_stride": hidden_strides[1],
        },
        constants={
            "TOPK": topk,
            "WIDTH": width,
            "BLOCK": block,
            "IS_FIRST": step_index == 0,
            "HAS_HIDDEN": bool(hidden_size),
            **dict.fromkeys(absent),
        },
        tunables={"HIDDEN_BLOCK": hidden_block, "ONE_BY_ONE": takes_maxima(topk)},
        num_warps=ranking_warps(block, num_requests),
    )


def organize_draft_results(
    score_list: Sequence[torch.Tensor],
    token_list: Sequence[torch.Tensor],
    parents_list: Sequence[torch.Tensor],
    num_draft_tokens: int,
) -> OrganizeDraftResultsOutputs[torch.Tensor]:
    """Keep the N-1 best candidates of all depths, in flat-id order; one program a request.

    More than 4096 candidates a request go through ``fast_topk`` block by block.
    """
    return run("organize_draft_results", launch_organize_draft_results, locals())


def launch_organize_draft_results(call: Call) -> OrganizeDraftResultsOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, outputs = call.axes, call.outputs
    num_steps, topk, num_kept = axes["step"], axes["topk"], count_draft_nodes(axes["node"])
    if axes["request"] == 0:
        return outputs
    if count_candidates(topk, num_steps) > LARGEST_BLOCK:
        _organize_by_topk(call)
        return outputs
    launch(
        _plan_organize(axes["request"], num_steps, topk, num_kept),
        inputs={
            name: tuple(entry.contiguous() for entry in call.arguments[name])
            for name in ("score_list", "token_list", "parents_list")
        },
        outputs=call.returned(),
    )
    return outputs


def _organize_by_topk(call: Call) -> None:
    arguments, outputs = call.arguments, call.outputs
    scores = torch.cat([scores.flatten(1) for scores in arguments["score_list"]], dim=1)
    kept = fast_topk(scores, outputs.top_scores_index.shape[1]).topk_index
    outputs.top_scores_index.copy_(kept.sort(dim=1).values)
    tokens = torch.cat(list(arguments["token_list"]), dim=1)
    torch.gather(tokens, 1, outputs.top_scores_index, out=outputs.draft_tokens)
    torch.cat(list(arguments["parents_list"][:-1]), dim=1, out=outputs.parent_list)


@planned
def _plan_organize(num_requests: int, num_steps: int, topk: int, num_kept: int) -> Plan:
    block = power_of_two(count_candidates(topk, num_steps))
    return Plan(
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
    )


def organize_chain_draft_results(
    token_list: Sequence[torch.Tensor],
) -> OrganizeChainDraftResultsOutputs[torch.Tensor]:
    """Organise the drafts of a chain, where nothing is pruned; one launch."""
    return run("organize_chain_draft_results", launch_organize_chain_draft_results, locals())


def launch_organize_chain_draft_results(call: Call) -> OrganizeChainDraftResultsOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    if call.axes["request"]:
        launch(
            _plan_chain(call.axes["request"], call.axes["step"]),
            inputs={"token_list": tuple(entry.contiguous() for entry in call.arguments["token_list"])},
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_chain(num_requests: int, num_steps: int) -> Plan:
    block = choose_block(num_requests, COPIES)
    return Plan(
        kernels._organize_chain_draft_results_kernel,
        grid=(ceil_div(num_requests, block),),
        sizes={"num_requests": num_requests},
        constants={"NUM_STEPS": num_steps},
        tunables={"BLOCK": block},
    )


def map_hot_tokens(topk_index: torch.Tensor, hot_token_id: torch.Tensor) -> torch.Tensor:
    """Map draft-vocabulary ids to target-vocabulary ids; an id outside the draft vocabulary maps to 0."""
    return run("map_hot_tokens", launch_map_hot_tokens, locals())


def launch_map_hot_tokens(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes, topk_index = call.axes, call.arguments["topk_index"]
    if axes["row"] * axes["column"]:
        launch(
            _plan_map(axes["row"], axes["column"], axes["draft_vocab"], *topk_index.stride()),
            inputs={"topk_index": topk_index, **call.contiguous("hot_token_id")},
            outputs={"token_index": call.outputs},
        )
    return call.outputs


@planned
def _plan_map(num_rows: int, num_columns: int, draft_vocab: int, row_stride: int, column_stride: int) -> Plan:
    num_entries = num_rows * num_columns
    block = choose_block(num_entries, IDS)
    return Plan(
        kernels._map_hot_tokens_kernel,
        grid=(ceil_div(num_entries, block),),
        sizes={
            **{"num_entries": num_entries, "num_columns": num_columns, "draft_vocab": draft_vocab},
            **{"row_stride": row_stride, "column_stride": column_stride},
        },
        tunables={"BLOCK": block},
    )
