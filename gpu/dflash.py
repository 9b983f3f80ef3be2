"""DFLASH on the GPU: what a draft of a whole block needs beside the operations of a chain."""

import torch

from specsim.gpu.kernels import dflash as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of

ROWS = 256
"""Rows of a program that writes tokens or positions: two a thread of four warps."""

COLUMNS = 1024
"""Entries of a table that a program copies: eight a thread of four warps."""

LOGITS = 4096
"""Logits of its row that a program reads at a time: sixteen a thread of eight warps."""

LANES = 1024
"""Lanes whose four largest logits are kept: four a thread of eight warps, in sixteen registers."""

WAYS, TRIES, INTERPRETED_WAYS = 8, 4, 256
"""Bounds that a round tries on a row (three bits of a float32) and on what is kept of it; eight bits interpreted."""


@operation
def prepare_block_draft(call: Call) -> Launch | None:
    """Lay out the block that is drafted at once; a program owns a block of rows."""
    num_nodes = call.axes["num_draft_tokens"]
    num_rows = call.axes["request"] * num_nodes
    if num_rows == 0:
        return None
    block = choose_block(num_rows, ROWS)
    return Launch(
        Plan(
            kernels._prepare_block_draft_kernel,
            grid=(ceil_div(num_rows, block),),
            sizes={"mask_token": call.axes["mask_token"], "num_rows": num_rows, "num_nodes": num_nodes},
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("bonus_tokens", "seq_lens"),
        outputs=call.returned(),
    )


@operation
def block_draft_metadata(call: Call) -> Launch | None:
    """Tabulate the slots that a block may see; one launch over requests and blocks of columns."""
    axes, outputs, rows = call.axes, call.outputs, call.arguments["req_to_token"]
    if axes["request"] == 0:
        outputs.cu_seqlens_q.zero_()
        return None
    num_columns = outputs.page_table.shape[1]
    block = choose_block(max(num_columns, 1), COLUMNS)
    return Launch(
        Plan(
            kernels._block_draft_metadata_kernel,
            grid=(axes["request"], max(1, ceil_div(num_columns, block))),
            sizes={
                "num_nodes": axes["num_draft_tokens"],
                "draft_window": axes["draft_window"],
                "page_size": axes["page_size"],
                "num_rows": rows.shape[0],
                "row_width": rows.shape[1],
                "num_columns": num_columns,
                **strides_of(rows, "row", "column"),
            },
            tunables={"BLOCK": block},
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )


@operation
def keep_top_k_exactly(call: Call) -> Launch | None:
    """Keep the k largest logits of a row; a program reads one row twice, unless its largest logits share a lane."""
    logits = call.arguments["logits"]
    num_rows, vocab = call.outputs.shape
    if num_rows == 0:
        return None
    block = choose_block(vocab, LOGITS, LOGITS)
    ways, tries = (max(2, choose_block(LARGEST_TILE // block, most, INTERPRETED_WAYS)) for most in (WAYS, TRIES))
    return Launch(
        Plan(
            kernels._keep_top_k_exactly_kernel,
            grid=(num_rows,),
            sizes={
                "num_requests": call.axes["request"],
                "num_nodes": call.axes["num_draft_tokens"],
                "vocab": vocab,
                **strides_of(logits, "row", "column"),
            },
            # NOTE: the last 16 bits of a bfloat16 in float32 are 0, so that the search leaves them out.
            constants={
                "SHIFT": 16 if logits.dtype is torch.bfloat16 else 0,
                "REQUESTS": power_of_two(call.axes["request"]),
            },
            tunables={"WAYS": ways, "TRIES": tries, "LANES": min(choose_block(vocab, LANES), block), "BLOCK": block},
            num_warps=8,
        ),
        inputs={"logits": logits, **call.contiguous("top_k")},
        outputs=call.returned(),
    )


@operation
def fill_block_tokens(call: Call) -> Launch | None:
    """Shift each block left by one and write the bonus token into it; a program owns a block of rows."""
    num_nodes = call.axes["node"]
    num_rows = call.axes["request"] * num_nodes
    if num_rows == 0:
        return None
    block = choose_block(num_rows, ROWS)
    return Launch(
        Plan(
            kernels._fill_block_tokens_kernel,
            grid=(ceil_div(num_rows, block),),
            sizes={"num_rows": num_rows, "num_nodes": num_nodes},
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("candidates", "num_accepted_drafts", "bonus_tokens"),
        outputs=call.returned(),
    )
