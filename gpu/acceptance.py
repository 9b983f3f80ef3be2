"""Acceptance by chance: coins, the tree and the chain sampler, and simulated acceptance."""

from typing import Any

import torch

from specsim.counts import count_tokens, path_width
from specsim.gpu.kernels import acceptance as kernels
from specsim.gpu.kernels import chain_blocks
from specsim.gpu.kernels.from_logits import unfiltered
from specsim.gpu.kernels.from_logits.statistics import FEW
from specsim.gpu.launching.blocks import LARGEST_TILE, WARP_SIZE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Buffer, Buffers, Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, Size
from specsim.gpu.launching.row_statistics import LARGEST_PRECISE, NUM_WARPS, reads_all, share_of_row

TREE = ("candidates", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling")
COINS = ("uniform_samples", "uniform_samples_for_final_sampling")
THRESHOLDS = ("threshold_single", "threshold_acc")
"""Arguments that kernels take together."""

TILE = 1024
"""Coins or places of a path of a program: eight a thread of four warps."""

BLOCK = 2048
"""Probabilities of a row that a program adds up at a time: sixteen a thread of four warps, in float64."""


MASSES = 4096
"""Masses of blocks that a program adds up at a time, of all fronts of a request: sixteen a thread of eight warps."""

MOST_UNFILTERED_ROWS = 128
"""Rows that are all read in one launch before one walk from raw logits without filters, not level by level."""

UNFILTERED_PROGRAMS = 512
"""Programs over which the rows of such a walk are split."""

UNFILTERED_BLOCK, UNFILTERED_WARPS = 4096, 4
"""Logits that are weighed together, and read once more by the last draw; warps of a program."""


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
def tree_speculative_sampling_target_only(call: Call) -> list[Launch]:
    """Walk each tree by chance, and draw from the row of its last node, in two launches as a chain does.

    Every program of the first walks: a level costs one round of reads of the probabilities of a tree's tokens.
    """
    axes, target_probs, draft_probs = call.axes, call.arguments["target_probs"], call.arguments["draft_probs"]
    if axes["request"] == 0:
        return []
    num_nodes, num_steps = axes["node"], axes["num_steps"]
    inputs: dict[str, Buffer] = {
        "tree": call.group(*TREE),
        **call.contiguous(*COINS),
        "target_probs": target_probs,
        "threshold": call.group(*THRESHOLDS),
    }
    outputs: dict[str, Buffer] = {"draft_probs": draft_probs, "path": tuple(call.outputs)}
    return _walk_and_draw(
        call,
        kernels._walk_tree_kernel,
        {"num_nodes": num_nodes, "num_steps": num_steps},
        {
            "STRICT": bool(axes["strict"]),
            "SKIP_DUPLICATES": bool(axes["skip_duplicates"]),
            "NODES": power_of_two(num_nodes),
            "WIDTH": power_of_two(path_width(num_steps)),
        },
        inputs,
        outputs,
    )


@operation
def chain_speculative_sampling(call: Call) -> list[Launch]:
    """Accept ragged chains by rejection sampling in two launches; a program decides by two probabilities a draft."""
    axes, arguments = call.axes, call.arguments
    if axes["request"] == 0:
        return []
    has_draft = arguments["draft_probs"] is not None
    names = ("target_probs", "draft_probs") if has_draft else ("target_probs",)
    return _walk_and_draw(
        call,
        kernels._accept_chain_kernel,
        {"num_drafted": axes["drafted"], "max_num_drafts": axes["max_num_drafts"]},
        {"HAS_DRAFT": has_draft, "WIDTH": power_of_two(count_tokens(axes["max_num_drafts"]))},
        {
            **call.contiguous("draft_tokens", "cu_num_drafts", *COINS),
            **{name: arguments[name] for name in names},
        },
        call.returned(),
    )


@operation
def chain_block_verification(call: Call) -> list[Launch]:
    """Accept ragged chains as blocks in two launches, over blocks of all rows and over requests.

    The first adds up what every front leaves. The second judges all fronts at once, and draws from the row of one.
    """
    axes, target_probs, draft_probs = call.axes, call.arguments["target_probs"], call.arguments["draft_probs"]
    num_requests, vocab, num_levels = axes["request"], axes["vocab"], count_tokens(axes["max_num_drafts"])
    if num_requests == 0:
        return []
    has_draft = draft_probs is not None
    block = choose_block(vocab, BLOCK)
    num_blocks, width = ceil_div(vocab, block), power_of_two(num_levels)
    num_units = num_levels * num_blocks
    programs = chunks_to_fill(num_requests, num_units)
    sizes: dict[str, Size] = {
        "num_drafted": axes["drafted"],
        "vocab": vocab,
        "max_num_drafts": axes["max_num_drafts"],
        "draft_strides": draft_probs.stride() if has_draft else (0, 0),
        "target_strides": target_probs.stride(),
    }
    constants = {"HAS_DRAFT": has_draft, "WIDTH": width, **({} if has_draft else {"draft_probs_ptr": None})}
    inputs: Buffers = {
        **call.contiguous("draft_tokens", "cu_num_drafts", *COINS),
        "target_probs": target_probs,
        **({"draft_probs": draft_probs} if has_draft else {}),
    }
    scratch: Buffers = {
        "front_share": call.scratch(num_requests, num_levels, dtype=torch.float64),
        "block_mass": call.scratch(num_requests, num_units, dtype=torch.float64),
    }
    weigh = Plan(
        chain_blocks._weigh_fronts_kernel,
        grid=(num_requests, programs),
        sizes={**sizes, "units_per_program": ceil_div(num_units, programs)},
        constants=constants,
        tunables={"BLOCK": block},
        num_warps=max(1, min(4, block // 256)),
    )
    draw = Plan(
        chain_blocks._draw_after_fronts_kernel,
        grid=(num_requests,),
        sizes=sizes,
        constants={**constants, "BLOCKS": power_of_two(num_blocks)},
        tunables={"BLOCK": block, "PART": max(1, min(power_of_two(num_blocks), MASSES // width))},
        num_warps=max(1, min(8, block // 256)),
    )
    return [Launch(plan, inputs, call.returned(), scratch) for plan in (weigh, draw)]


def _walk_and_draw(
    call: Call, kernel: Any, sizes: dict[str, Size], constants: dict[str, Any], inputs: Buffers, outputs: Buffers
) -> list[Launch]:
    """Walk and draw the last token: its row is split over the programs of the first launch.

    A program adds up its blocks of the row, and of another one where something was rejected; one of the second launch
    reads the block that the coin falls into. Blocks depend on the vocabulary alone, hence so do the sums.
    """
    num_requests, vocab = call.axes["request"], call.axes["vocab"]
    target_probs, draft_probs = call.arguments["target_probs"], call.arguments["draft_probs"]
    has_other = draft_probs is not None
    draft_strides = draft_probs.stride() if has_other else (0, 0)
    absent = {} if has_other else {"draft_probs_ptr": None}
    block = choose_block(vocab, BLOCK)
    num_blocks = ceil_div(vocab, block)
    programs = chunks_to_fill(num_requests, num_blocks)
    walk = Plan(
        kernel,
        grid=(num_requests, programs),
        sizes={
            "vocab": vocab,
            "target_strides": target_probs.stride(),
            "draft_strides": draft_strides,
            "blocks_per_program": ceil_div(num_blocks, programs),
            **sizes,
        },
        constants={**constants, **absent},
        tunables={"BLOCK": block},
        num_warps=max(1, min(4, block // 256)),
    )
    draw = Plan(
        kernels._draw_last_token_kernel,
        grid=(num_requests,),
        sizes={
            "vocab": vocab,
            "target_token_stride": target_probs.stride()[-1],
            "draft_token_stride": draft_strides[-1],
        },
        constants={"HAS_OTHER": has_other, "BLOCKS": power_of_two(num_blocks), **absent},
        tunables={"BLOCK": block},
        num_warps=max(1, min(8, block // 256)),
    )
    scratch = {
        "last_draw": call.scratch(num_requests, 4, dtype=torch.int64),
        "block_mass": call.scratch(num_requests, num_blocks, dtype=torch.float64),
    }
    outputs = {**outputs, "drawn_token": call.outputs[0]}
    return [Launch(plan, inputs, outputs, scratch) for plan in (walk, draw)]


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


def unfiltered_of(call: Call) -> tuple[list[dict[str, Any]], Buffers, Buffers]:
    """Return what is planned of a walk without filters, with its inputs and scratch memory.

    That is a launch a level, or one that reads all rows, and one that draws. Nothing but the weights of chunks decides
    drafts, so that every program which reads a row finds its node itself.
    """
    axes, logits = call.axes, call.arguments["logits"]
    num_requests, num_nodes, vocab, num_steps = (axes[name] for name in ("request", "node", "vocab", "num_steps"))
    num_levels = min(path_width(num_steps), num_nodes)
    is_whole = num_levels > 1 and reads_all(num_requests * num_nodes, MOST_UNFILTERED_ROWS)
    num_rows = num_requests * num_nodes if is_whole else num_requests
    chunk = max(FEW.value, share_of_row(vocab, num_rows, UNFILTERED_PROGRAMS))
    block = min(chunk, max(FEW.value, choose_block(vocab, UNFILTERED_BLOCK)))
    num_chunks = ceil_div(vocab, chunk)
    sizes: dict[str, Size] = {
        "num_nodes": num_nodes,
        "num_steps": num_steps,
        "row_sizes": (num_chunks, vocab, *logits.stride()),
        "rules": axes["strict"] | axes["skip_duplicates"] << 1,
    }
    constants = {
        "TREE": (max(WARP_SIZE, power_of_two(num_nodes)), power_of_two(path_width(num_steps))),
        "CHUNKS": power_of_two(num_chunks),
        "PRECISE": vocab <= LARGEST_PRECISE,
        "READS_ALL": is_whole,
    }
    shared = {"constants": constants, "tunables": {"TILE": (chunk // block, block)}}
    planned: list[dict[str, Any]] = [
        {
            "kernel": unfiltered._read_unfiltered_kernel,
            "grid": (num_rows, num_chunks),
            "sizes": {**sizes, "level": level},
            "num_warps": max(1, min(UNFILTERED_WARPS, chunk // 256)),
        }
        for level in range(1 if is_whole else num_levels)
    ]
    end = {
        "kernel": unfiltered._end_unfiltered_kernel,
        "grid": (num_requests,),
        "sizes": {**sizes, "num_levels": num_levels},
        "num_warps": max(1, min(NUM_WARPS, block // 256)),
    }
    partial = (num_rows if is_whole else num_levels * num_requests, num_chunks)
    inputs = {
        "logits": logits,
        **call.contiguous("temperature"),
        "tree": call.group(*TREE),
        "coin": call.group(*COINS),
        "threshold": call.group(*THRESHOLDS),
    }
    scratch: Buffers = {
        "reached": call.scratch(num_levels, num_requests, dtype=torch.int32),
        "chunk": (
            call.scratch(*partial, dtype=torch.float32),
            call.scratch(*partial, dtype=torch.int32),
            call.scratch(*partial, chunk // block, dtype=torch.float64),
        ),
    }
    return [{**one, **shared} for one in (*planned, end)], inputs, scratch
