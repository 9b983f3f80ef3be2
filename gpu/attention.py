"""Attention: what a verify forward hands to kernels of three kinds, for trees; sizes come from scalars alone."""

import torch

from specsim.gpu.kernels import attention as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import (
    IdleAttentionMetadataOutputs,
    VerifyCascadeMetadataOutputs,
    VerifyCustomMaskMetadataOutputs,
    VerifyExtendMetadataOutputs,
)

TILE = 1024
"""Slots that a program copies, or pairs of nodes that it looks at, at a time: eight a thread of four warps."""

MASK_ENTRIES = 8192
"""Entries of a mask that a program copies: 64 bytes a thread of four warps."""


def verify_cascade_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    tree_mask: torch.Tensor,
    num_draft_tokens: int,
    max_prefix_len: int,
    page_size: int = 1,
) -> VerifyCascadeMetadataOutputs[torch.Tensor]:
    """Lay out two passes, over the prefix and over the nodes that each node sees; one launch each."""
    return run("verify_cascade_metadata", launch_verify_cascade_metadata, locals())


def launch_verify_cascade_metadata(call: Call) -> VerifyCascadeMetadataOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, outputs = call.axes, call.outputs
    if axes["request"] == 0:
        outputs.cu_seqlens_q.zero_()
        return outputs
    rows, mask = call.arguments["req_to_token"], call.arguments["tree_mask"]
    plans = _plan_cascade(
        axes["request"],
        axes["row"],
        axes["position"],
        axes["node"],
        outputs.page_table.shape[1],
        axes["page_size"],
        axes["mask"],
        *rows.stride(),
        *mask.stride(),
    )
    launch(
        *plans,
        inputs={"req_to_token": rows, "tree_mask": mask, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )
    return outputs


@planned
def _plan_cascade(
    num_requests: int,
    num_rows: int,
    num_positions: int,
    num_nodes: int,
    num_columns: int,
    page_size: int,
    num_entries: int,
    row_stride: int,
    column_stride: int,
    mask_stride: int,
) -> tuple[Plan, Plan]:
    block = choose_block(num_columns, TILE)
    nodes = power_of_two(num_nodes)
    rows = choose_block(num_nodes, max(1, TILE // nodes), max(1, LARGEST_TILE // nodes))
    strides = {"row_stride": row_stride, "column_stride": column_stride}
    prefix = Plan(
        kernels._cascade_prefix_kernel,
        grid=(num_requests, max(1, ceil_div(num_columns, block))),
        sizes={"num_rows": num_rows, "num_nodes": num_nodes, "num_columns": num_columns, **strides},
        constants={"PAGE_SIZE": page_size},
        tunables={"BLOCK": block},
    )
    expand = Plan(
        kernels._cascade_expand_kernel,
        grid=(num_requests, ceil_div(num_nodes, rows)),
        sizes={
            "num_requests": num_requests,
            "num_rows": num_rows,
            "num_nodes": num_nodes,
            "num_positions": num_positions,
            "num_entries": num_entries,
            "mask_stride": mask_stride,
            **strides,
        },
        constants={"REQUESTS": power_of_two(num_requests), "NODES": nodes},
        tunables={"ROWS": rows},
    )
    return prefix, expand


def verify_custom_mask_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    tree_mask: torch.Tensor,
    num_draft_tokens: int,
    seq_lens_sum: int,
) -> VerifyCustomMaskMetadataOutputs[torch.Tensor]:
    """Lay out one pass over prefix and window under the full mask; a launch for it, and one that copies the mask."""
    return run("verify_custom_mask_metadata", launch_verify_custom_mask_metadata, locals())


def launch_verify_custom_mask_metadata(call: Call) -> VerifyCustomMaskMetadataOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    tree_mask, outputs = call.arguments["tree_mask"], call.returned()
    custom_mask = outputs.pop("custom_mask")
    _list_keys(call, outputs, has_window=True)
    if custom_mask.shape[0]:
        launch(
            _plan_mask(tree_mask.shape[0], custom_mask.shape[0], *tree_mask.stride()),
            inputs={"tree_mask": tree_mask},
            outputs={"custom_mask": custom_mask},
        )
    return call.outputs


@planned
def _plan_mask(num_given: int, num_entries: int, mask_stride: int) -> Plan:
    block = choose_block(num_entries, MASK_ENTRIES)
    return Plan(
        kernels._continue_mask_kernel,
        grid=(ceil_div(num_entries, block),),
        sizes={"num_given": num_given, "num_entries": num_entries, "mask_stride": mask_stride},
        tunables={"BLOCK": block},
    )


def verify_extend_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    num_draft_tokens: int,
    seq_lens_sum: int,
) -> VerifyExtendMetadataOutputs[torch.Tensor]:
    """Lay out the keys of the prefix alone, and the offsets of the window's mask; one launch."""
    return run("verify_extend_metadata", launch_verify_extend_metadata, locals())


def launch_verify_extend_metadata(call: Call) -> VerifyExtendMetadataOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    _list_keys(call, call.returned(), has_window=False)
    return call.outputs


def _list_keys(call: Call, outputs: dict[str, torch.Tensor], *, has_window: bool) -> None:
    """List the keys of the prefix, and of the window where no offsets of its mask are asked for."""
    axes, rows = call.axes, call.arguments["req_to_token"]
    if axes["request"] == 0:
        for name, offsets in outputs.items():
            if name != "kv_indices":
                offsets.zero_()
        return
    num_entries = outputs["kv_indices"].shape[0]
    launch(
        _plan_keys(
            axes["request"], axes["row"], axes["node"], axes["position"], num_entries, has_window, *rows.stride()
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=outputs,
    )


@planned
def _plan_keys(
    num_requests: int,
    num_rows: int,
    num_nodes: int,
    num_positions: int,
    num_entries: int,
    has_window: bool,
    row_stride: int,
    column_stride: int,
) -> Plan:
    block = choose_block(num_positions, TILE)
    return Plan(
        kernels._list_keys_kernel,
        grid=(num_requests, chunks_to_fill(num_requests, max(1, ceil_div(num_positions, block)))),
        sizes={
            "num_requests": num_requests,
            "num_rows": num_rows,
            "num_nodes": num_nodes,
            "num_positions": num_positions,
            "num_entries": num_entries,
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        constants={
            "HAS_WINDOW": has_window,
            "REQUESTS": power_of_two(num_requests),
            **({"mask_indptr_ptr": None} if has_window else {}),
        },
        tunables={"BLOCK": block},
    )


def idle_attention_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    num_new_keys: int,
    max_seq_len_k: int,
    page_size: int = 1,
) -> IdleAttentionMetadataOutputs[torch.Tensor]:
    """Lay out lengths and page table of dummy rows; one launch over requests and blocks of pages."""
    return run("idle_attention_metadata", launch_idle_attention_metadata, locals())


def launch_idle_attention_metadata(call: Call) -> IdleAttentionMetadataOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, outputs = call.axes, call.outputs
    if axes["request"] == 0:
        outputs.cu_seqlens_q.zero_()
        outputs.cu_seqlens_k.zero_()
        return outputs
    rows = call.arguments["req_to_token"]
    launch(
        _plan_idle(
            axes["request"],
            axes["row"],
            axes["num_new_keys"],
            outputs.page_table.shape[1],
            axes["page_size"],
            *rows.stride(),
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )
    return outputs


@planned
def _plan_idle(
    num_requests: int,
    num_rows: int,
    num_new_keys: int,
    num_pages: int,
    page_size: int,
    row_stride: int,
    column_stride: int,
) -> Plan:
    block = choose_block(num_pages, TILE)
    return Plan(
        kernels._idle_attention_metadata_kernel,
        grid=(num_requests, max(1, ceil_div(num_pages, block))),
        sizes={
            "num_requests": num_requests,
            "num_rows": num_rows,
            "num_new_keys": num_new_keys,
            "num_pages": num_pages,
            "page_size": page_size,
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        constants={"REQUESTS": power_of_two(num_requests)},
        tunables={"BLOCK": block},
    )
