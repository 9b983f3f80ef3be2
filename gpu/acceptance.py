"""Acceptance by chance: coins, the tree and the chain sampler, and simulated acceptance."""

import torch

from specsim.counts import count_tokens, path_width
from specsim.gpu.kernels import acceptance as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import (
    ChainSpeculativeSamplingOutputs,
    GenerateCoinsOutputs,
    GenerateSimulatedAcceptIndexOutputs,
    TreeSpeculativeSamplingTargetOnlyOutputs,
)

TILE = 1024
"""Coins or places of a path of a program: eight a thread of four warps."""

VOCAB_BLOCK = 4096
"""Probabilities that the last draw adds up at a time: sixteen a thread of eight warps, in float64."""


def generate_coins(
    seeds: torch.Tensor, seq_lens: torch.Tensor, num_draft_tokens: int
) -> GenerateCoinsOutputs[torch.Tensor]:
    """Draw the coins of a verify; one launch over blocks of requests."""
    return run("generate_coins", launch_generate_coins, locals())


def launch_generate_coins(call: Call) -> GenerateCoinsOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    if call.axes["request"]:
        launch(
            _plan_coins(call.axes["request"], call.axes["num_draft_tokens"]),
            inputs=call.contiguous("seeds", "seq_lens"),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_coins(num_requests: int, num_nodes: int) -> Plan:
    columns = power_of_two(num_nodes + 1)
    requests = choose_block(num_requests, max(1, TILE // columns), LARGEST_TILE // columns)
    return Plan(
        kernels._generate_coins_kernel,
        grid=(ceil_div(num_requests, requests),),
        sizes={"num_requests": num_requests, "num_nodes": num_nodes},
        constants={"COLUMNS": columns},
        tunables={"REQUESTS": requests},
    )


def tree_speculative_sampling_target_only(
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: torch.Tensor,
    threshold_acc: torch.Tensor,
    num_steps: int,
    strict: bool = True,
    skip_duplicates: bool = True,
) -> TreeSpeculativeSamplingTargetOnlyOutputs[torch.Tensor]:
    """Walk each tree by chance; one program a request.

    A child costs one probability; the last token reads its row once, and one block of it again.
    """
    return run("tree_speculative_sampling_target_only", launch_tree_speculative_sampling_target_only, locals())


def launch_tree_speculative_sampling_target_only(call: Call) -> TreeSpeculativeSamplingTargetOnlyOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, target_probs, draft_probs = call.axes, call.arguments["target_probs"], call.arguments["draft_probs"]
    if axes["request"]:
        launch(
            _plan_tree(
                axes["request"],
                axes["node"],
                axes["vocab"],
                axes["num_steps"],
                target_probs.stride(),
                draft_probs.stride(),
                bool(axes["strict"]),
                bool(axes["skip_duplicates"]),
            ),
            inputs={
                **call.contiguous("candidates", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling"),
                **call.contiguous("uniform_samples", "uniform_samples_for_final_sampling"),
                "target_probs": target_probs,
                **call.contiguous("threshold_single", "threshold_acc"),
            },
            outputs={"draft_probs": draft_probs, **call.returned()},
        )
    return call.outputs


@planned
def _plan_tree(
    num_requests: int,
    num_nodes: int,
    vocab: int,
    num_steps: int,
    target_strides: tuple[int, int, int],
    draft_strides: tuple[int, int, int],
    strict: bool,
    skip_duplicates: bool,
) -> Plan:
    block = choose_block(vocab, VOCAB_BLOCK)
    axes = ("request", "node", "token")
    return Plan(
        kernels._tree_speculative_sampling_kernel,
        grid=(num_requests,),
        sizes={
            "num_nodes": num_nodes,
            "vocab": vocab,
            "num_steps": num_steps,
            **{f"target_{axis}_stride": stride for axis, stride in zip(axes, target_strides, strict=True)},
            **{f"draft_{axis}_stride": stride for axis, stride in zip(axes, draft_strides, strict=True)},
        },
        constants={
            "STRICT": strict,
            "SKIP_DUPLICATES": skip_duplicates,
            "NODES": power_of_two(num_nodes),
            "WIDTH": power_of_two(path_width(num_steps)),
            "BLOCKS": power_of_two(ceil_div(vocab, block)),
        },
        tunables={"BLOCK": block},
        num_warps=_num_warps(block),
    )


def chain_speculative_sampling(
    draft_tokens: torch.Tensor,
    cu_num_drafts: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    draft_probs: torch.Tensor | None,
    target_probs: torch.Tensor,
    max_num_drafts: int,
) -> ChainSpeculativeSamplingOutputs[torch.Tensor]:
    """Accept ragged chains by rejection sampling; one program a request.

    A draft costs two probabilities; the last token reads two rows once, and one block of them again.
    """
    return run("chain_speculative_sampling", launch_chain_speculative_sampling, locals())


def launch_chain_speculative_sampling(call: Call) -> ChainSpeculativeSamplingOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, target_probs, draft_probs = call.axes, call.arguments["target_probs"], call.arguments["draft_probs"]
    if axes["request"]:
        inputs = {
            **call.contiguous("draft_tokens", "cu_num_drafts"),
            **call.contiguous("uniform_samples", "uniform_samples_for_final_sampling"),
            "target_probs": target_probs,
        }
        if draft_probs is not None:
            inputs["draft_probs"] = draft_probs
        launch(
            _plan_chain(
                axes["request"],
                axes["drafted"],
                axes["vocab"],
                axes["max_num_drafts"],
                target_probs.stride(),
                None if draft_probs is None else draft_probs.stride(),
            ),
            inputs=inputs,
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_chain(
    num_requests: int,
    num_drafted: int,
    vocab: int,
    max_num_drafts: int,
    target_strides: tuple[int, int],
    draft_strides: tuple[int, int] | None,
) -> Plan:
    block = choose_block(vocab, VOCAB_BLOCK)
    draft_row_stride, draft_token_stride = draft_strides or (0, 0)
    return Plan(
        kernels._chain_speculative_sampling_kernel,
        grid=(num_requests,),
        sizes={
            "num_drafted": num_drafted,
            "vocab": vocab,
            "max_num_drafts": max_num_drafts,
            "draft_row_stride": draft_row_stride,
            "draft_token_stride": draft_token_stride,
            "target_row_stride": target_strides[0],
            "target_token_stride": target_strides[1],
        },
        constants={
            "HAS_DRAFT": draft_strides is not None,
            "WIDTH": power_of_two(count_tokens(max_num_drafts)),
            "BLOCKS": power_of_two(ceil_div(vocab, block)),
            **({} if draft_strides else {"draft_probs_ptr": None}),
        },
        tunables={"BLOCK": block},
        num_warps=_num_warps(block),
    )


def generate_simulated_accept_index(
    accept_index: torch.Tensor, simulated_num_tokens: int, num_draft_tokens: int
) -> GenerateSimulatedAcceptIndexOutputs[torch.Tensor]:
    """Pretend that every request accepted the same number of tokens; one launch over blocks of requests."""
    return run("generate_simulated_accept_index", launch_generate_simulated_accept_index, locals())


def launch_generate_simulated_accept_index(call: Call) -> GenerateSimulatedAcceptIndexOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["request"]:
        width = call.arguments["accept_index"].shape[1]
        launch(
            _plan_simulated(axes["request"], axes["simulated_num_tokens"], axes["num_draft_tokens"], width),
            inputs=call.contiguous("accept_index"),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_simulated(num_requests: int, simulated_num_tokens: int, num_nodes: int, width: int) -> Plan:
    nodes = power_of_two(num_nodes)
    requests = choose_block(num_requests, max(1, TILE // nodes), LARGEST_TILE // nodes)
    return Plan(
        kernels._generate_simulated_accept_index_kernel,
        grid=(ceil_div(num_requests, requests),),
        sizes={
            "num_requests": num_requests,
            "simulated_num_tokens": simulated_num_tokens,
            "num_nodes": num_nodes,
            "width": width,
        },
        constants={"NODES": nodes},
        tunables={"REQUESTS": requests},
    )


def _num_warps(block: int) -> int:
    """Return a warp for every 256 entries of a block, from 1 to 8."""
    return max(1, min(8, block // 256))
