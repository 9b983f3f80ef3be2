"""Acceptance by chance: coins, the tree and the chain sampler, and simulated acceptance."""

import torch

from specsim.counts import count_tokens, path_width
from specsim.gpu.kernels import acceptance as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, Size

TREE = ("candidates", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling")
COINS = ("uniform_samples", "uniform_samples_for_final_sampling")
THRESHOLDS = ("threshold_single", "threshold_acc")
"""Arguments that kernels take together."""

TILE = 1024
"""Coins or places of a path of a program: eight a thread of four warps."""

VOCAB_BLOCK = 4096
"""Probabilities that the last draw adds up at a time: sixteen a thread of eight warps, in float64."""

CHAIN_BLOCK = 2048
"""Probabilities of a row that a program adds up at a time: sixteen a thread of four warps, in float64."""


@operation
def generate_coins(call: Call) -> Launch | None:
    """Draw the coins of a verify; one launch over blocks of requests."""
    num_requests, num_nodes = call.axes["request"], call.axes["num_draft_tokens"]
    if num_requests == 0:
        return None
    columns = power_of_two(num_nodes + 1)
    requests = choose_block(num_requests, max(1, TILE // columns), LARGEST_TILE // columns)
    return Launch(
        Plan(
            kernels._generate_coins_kernel,
            grid=(ceil_div(num_requests, requests),),
            sizes={"num_requests": num_requests, "num_nodes": num_nodes},
            constants={"COLUMNS": columns},
            tunables={"REQUESTS": requests},
        ),
        inputs=call.contiguous("seeds", "seq_lens"),
        outputs=call.returned(),
    )


@operation
def tree_speculative_sampling_target_only(call: Call) -> Launch | None:
    """Walk each tree by chance; one program a request.

    A child costs one probability; the last token reads its row once, and one block of it again.
    """
    axes, target_probs, draft_probs = call.axes, call.arguments["target_probs"], call.arguments["draft_probs"]
    if axes["request"] == 0:
        return None
    num_nodes, vocab, num_steps = axes["node"], axes["vocab"], axes["num_steps"]
    block = choose_block(vocab, VOCAB_BLOCK)
    return Launch(
        Plan(
            kernels._tree_speculative_sampling_kernel,
            grid=(axes["request"],),
            sizes={
                "num_nodes": num_nodes,
                "vocab": vocab,
                "num_steps": num_steps,
                "target_strides": target_probs.stride(),
                "draft_strides": draft_probs.stride(),
            },
            constants={
                "STRICT": bool(axes["strict"]),
                "SKIP_DUPLICATES": bool(axes["skip_duplicates"]),
                "NODES": power_of_two(num_nodes),
                "WIDTH": power_of_two(path_width(num_steps)),
                "BLOCKS": power_of_two(ceil_div(vocab, block)),
            },
            tunables={"BLOCK": block},
            num_warps=_num_warps(block),
        ),
        inputs={
            "tree": call.group(*TREE),
            "coin": call.group(*COINS),
            "target_probs": target_probs,
            "threshold": call.group(*THRESHOLDS),
        },
        outputs={"draft_probs": draft_probs, "path": tuple(call.outputs)},
    )


@operation
def chain_speculative_sampling(call: Call) -> list[Launch]:
    """Accept ragged chains by rejection sampling in two launches: the row after the accepted drafts is split.

    A program of the first decides by two probabilities a draft, and adds up its blocks of two rows; one of the second
    reads the block that the coin falls into. Blocks depend on the vocabulary alone, hence so do the sums.
    """
    axes, target_probs, draft_probs = call.axes, call.arguments["target_probs"], call.arguments["draft_probs"]
    num_requests, vocab = axes["request"], axes["vocab"]
    if num_requests == 0:
        return []
    has_draft = draft_probs is not None
    block = choose_block(vocab, CHAIN_BLOCK)
    num_blocks = ceil_div(vocab, block)
    programs = chunks_to_fill(num_requests, num_blocks)
    sizes: dict[str, Size] = {
        "num_drafted": axes["drafted"],
        "vocab": vocab,
        "max_num_drafts": axes["max_num_drafts"],
        "draft_strides": draft_probs.stride() if has_draft else (0, 0),
        "target_strides": target_probs.stride(),
        "num_blocks": num_blocks,
    }
    constants = {"HAS_DRAFT": has_draft, **({} if has_draft else {"draft_probs_ptr": None})}
    accept = Plan(
        kernels._accept_chain_kernel,
        grid=(num_requests, programs),
        sizes={**sizes, "blocks_per_program": ceil_div(num_blocks, programs)},
        constants={**constants, "WIDTH": power_of_two(count_tokens(axes["max_num_drafts"]))},
        tunables={"BLOCK": block},
        num_warps=max(1, min(4, block // 256)),
    )
    last = Plan(
        kernels._draw_after_chain_kernel,
        grid=(num_requests,),
        sizes=sizes,
        constants={**constants, "BLOCKS": power_of_two(num_blocks)},
        tunables={"BLOCK": block},
        num_warps=_num_warps(block),
    )
    inputs = {
        **call.contiguous("draft_tokens", "cu_num_drafts"),
        **call.contiguous("uniform_samples", "uniform_samples_for_final_sampling"),
        "target_probs": target_probs,
        **({"draft_probs": draft_probs} if has_draft else {}),
    }
    scratch = {
        "rejected_token": call.scratch(num_requests, dtype=torch.int64),
        "block_mass": call.scratch(num_requests, num_blocks, dtype=torch.float64),
    }
    outputs = call.returned()
    return [Launch(plan, inputs, outputs, scratch) for plan in (accept, last)]


@operation
def generate_simulated_accept_index(call: Call) -> Launch | None:
    """Pretend that every request accepted the same number of tokens; one launch over blocks of requests."""
    num_requests, num_nodes = call.axes["request"], call.axes["num_draft_tokens"]
    if num_requests == 0:
        return None
    nodes = power_of_two(num_nodes)
    requests = choose_block(num_requests, max(1, TILE // nodes), LARGEST_TILE // nodes)
    return Launch(
        Plan(
            kernels._generate_simulated_accept_index_kernel,
            grid=(ceil_div(num_requests, requests),),
            sizes={
                "num_requests": num_requests,
                "simulated_num_tokens": call.axes["simulated_num_tokens"],
                "num_nodes": num_nodes,
                "width": call.arguments["accept_index"].shape[1],
            },
            constants={"NODES": nodes},
            tunables={"REQUESTS": requests},
        ),
        inputs=call.contiguous("accept_index"),
        outputs=call.returned(),
    )


def _num_warps(block: int) -> int:
    """Return a warp for every 256 entries of a block, from 1 to 8."""
    return max(1, min(8, block // 256))
