"""DFLASH on the GPU: what a draft of a whole block needs beside the operations of a chain."""

import torch

from specsim.gpu.kernels import dflash as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import BlockDraftMetadataOutputs, PrepareBlockDraftOutputs

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


def prepare_block_draft(
    bonus_tokens: torch.Tensor, seq_lens: torch.Tensor, mask_token: int, num_draft_tokens: int
) -> PrepareBlockDraftOutputs[torch.Tensor]:
    """Lay out the block that is drafted at once; a program owns a block of rows."""
    return run("prepare_block_draft", launch_prepare_block_draft, locals())


def launch_prepare_block_draft(call: Call) -> PrepareBlockDraftOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    num_requests, num_nodes = call.axes["request"], call.axes["num_draft_tokens"]
    if num_requests:
        launch(
            _plan_block(num_requests * num_nodes, num_nodes, call.axes["mask_token"]),
            inputs=call.contiguous("bonus_tokens", "seq_lens"),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_block(num_rows: int, num_nodes: int, mask_token: int) -> Plan:
    block = choose_block(num_rows, ROWS)
    return Plan(
        kernels._prepare_block_draft_kernel,
        grid=(ceil_div(num_rows, block),),
        sizes={"mask_token": mask_token, "num_rows": num_rows, "num_nodes": num_nodes},
        tunables={"BLOCK": block},
    )


def block_draft_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    draft_window: int,
    num_draft_tokens: int,
    page_size: int = 1,
) -> BlockDraftMetadataOutputs[torch.Tensor]:
    """Tabulate the slots that a block may see; one launch over requests and blocks of columns."""
    return run("block_draft_metadata", launch_block_draft_metadata, locals())


def launch_block_draft_metadata(call: Call) -> BlockDraftMetadataOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, outputs = call.axes, call.outputs
    if axes["request"] == 0:
        outputs.cu_seqlens_q.zero_()
        return outputs
    rows = call.arguments["req_to_token"]
    launch(
        _plan_table(
            axes["request"],
            axes["num_draft_tokens"],
            axes["draft_window"],
            axes["page_size"],
            outputs.page_table.shape[1],
            *rows.shape,
            *rows.stride(),
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )
    return outputs


@planned
def _plan_table(
    num_requests: int,
    num_nodes: int,
    draft_window: int,
    page_size: int,
    num_columns: int,
    num_rows: int,
    row_width: int,
    row_stride: int,
    column_stride: int,
) -> Plan:
    block = choose_block(max(num_columns, 1), COLUMNS)
    return Plan(
        kernels._block_draft_metadata_kernel,
        grid=(num_requests, max(1, ceil_div(num_columns, block))),
        sizes={
            "num_nodes": num_nodes,
            "draft_window": draft_window,
            "page_size": page_size,
            "num_rows": num_rows,
            "row_width": row_width,
            "num_columns": num_columns,
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        tunables={"BLOCK": block},
    )


def keep_top_k_exactly(logits: torch.Tensor, top_k: torch.Tensor, num_draft_tokens: int) -> torch.Tensor:
    """Keep the k largest logits of a row; a program reads one row twice, unless its largest logits share a lane."""
    return run("keep_top_k_exactly", launch_keep_top_k_exactly, locals())


def launch_keep_top_k_exactly(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    logits, filtered_logits = call.arguments["logits"], call.outputs
    num_rows, vocab = filtered_logits.shape
    if num_rows:
        launch(
            _plan_filter(
                num_rows, call.axes["request"], call.axes["num_draft_tokens"], vocab, logits.dtype, *logits.stride()
            ),
            inputs={"logits": logits, **call.contiguous("top_k")},
            outputs={"filtered_logits": filtered_logits},
        )
    return filtered_logits


@planned
def _plan_filter(
    num_rows: int,
    num_requests: int,
    num_nodes: int,
    vocab: int,
    dtype: torch.dtype,
    row_stride: int,
    column_stride: int,
) -> Plan:
    block = choose_block(vocab, LOGITS, LOGITS)
    ways, tries = (max(2, choose_block(LARGEST_TILE // block, most, INTERPRETED_WAYS)) for most in (WAYS, TRIES))
    return Plan(
        kernels._keep_top_k_exactly_kernel,
        grid=(num_rows,),
        sizes={
            "num_requests": num_requests,
            "num_nodes": num_nodes,
            "vocab": vocab,
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        # NOTE: the last 16 bits of a bfloat16 in float32 are 0, so that the search leaves them out.
        constants={"SHIFT": 16 if dtype is torch.bfloat16 else 0, "REQUESTS": power_of_two(num_requests)},
        tunables={"WAYS": ways, "TRIES": tries, "LANES": min(choose_block(vocab, LANES), block), "BLOCK": block},
        num_warps=8,
    )


def fill_block_tokens(
    candidates: torch.Tensor, num_accepted_drafts: torch.Tensor, bonus_tokens: torch.Tensor
) -> torch.Tensor:
    """Shift each block left by one and write the bonus token into it; a program owns a block of rows."""
    return run("fill_block_tokens", launch_fill_block_tokens, locals())


def launch_fill_block_tokens(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    num_requests, num_nodes = call.axes["request"], call.axes["node"]
    if num_requests:
        launch(
            _plan_tokens(num_requests * num_nodes, num_nodes),
            inputs=call.contiguous("candidates", "num_accepted_drafts", "bonus_tokens"),
            outputs={"out_tokens": call.outputs},
        )
    return call.outputs


@planned
def _plan_tokens(num_rows: int, num_nodes: int) -> Plan:
    block = choose_block(num_rows, ROWS)
    return Plan(
        kernels._fill_block_tokens_kernel,
        grid=(ceil_div(num_rows, block),),
        sizes={"num_rows": num_rows, "num_nodes": num_nodes},
        tunables={"BLOCK": block},
    )
