"""Attention: what a verify forward hands to kernels of three kinds, for trees; sizes come from scalars alone."""

import torch

from specsim.gpu.kernels import attention as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, strides_of

TILE = 1024
"""Slots that a program copies, or pairs of nodes that it looks at, at a time: eight a thread of four warps."""

MASK_ENTRIES = 8192
"""Entries of a mask that a program copies: 64 bytes a thread of four warps."""


@operation
def verify_cascade_metadata(call: Call) -> list[Launch]:
    """Lay out two passes, over the prefix and over the nodes that each node sees; one launch each."""
    axes, outputs = call.axes, call.outputs
    num_requests, num_nodes = axes["request"], axes["node"]
    if num_requests == 0:
        outputs.cu_seqlens_q.zero_()
        return []
    rows, mask, num_columns = call.arguments["req_to_token"], call.arguments["tree_mask"], outputs.page_table.shape[1]
    block = choose_block(num_columns, TILE)
    nodes = power_of_two(num_nodes)
    window_rows = choose_block(num_nodes, max(1, TILE // nodes), max(1, LARGEST_TILE // nodes))
    shared = {"num_rows": axes["row"], "num_nodes": num_nodes, **strides_of(rows, "row", "column")}
    prefix = Plan(
        kernels._cascade_prefix_kernel,
        grid=(num_requests, max(1, ceil_div(num_columns, block))),
        sizes={"num_columns": num_columns, **shared},
        constants={"PAGE_SIZE": axes["page_size"]},
        tunables={"BLOCK": block},
    )
    expand = Plan(
        kernels._cascade_expand_kernel,
        grid=(num_requests, ceil_div(num_nodes, window_rows)),
        sizes={
            "num_requests": num_requests,
            "num_positions": axes["position"],
            "num_entries": axes["mask"],
            **strides_of(mask, "mask"),
            **shared,
        },
        constants={"REQUESTS": power_of_two(num_requests), "NODES": nodes},
        tunables={"ROWS": window_rows},
    )
    inputs = {"req_to_token": rows, "tree_mask": mask, **call.contiguous("req_pool_indices", "seq_lens")}
    returned = call.returned()
    return [Launch(plan, inputs, returned) for plan in (prefix, expand)]


@operation
def verify_custom_mask_metadata(call: Call) -> list[Launch]:
    """Lay out one pass over prefix and window under the full mask, which is copied; one launch."""
    return _list_keys(call, tree_mask=call.arguments["tree_mask"])


@operation
def verify_extend_metadata(call: Call) -> list[Launch]:
    """Lay out the keys of the prefix alone, and the offsets of the window's mask; one launch."""
    return _list_keys(call, tree_mask=None)


def _list_keys(call: Call, *, tree_mask: torch.Tensor | None) -> list[Launch]:
    """List the keys of the prefix, and of the window where there is a mask for both."""
    axes, rows, outputs = call.axes, call.arguments["req_to_token"], call.returned()
    num_requests, num_positions = axes["request"], axes["position"]
    if num_requests == 0:
        for name in {"qo_indptr", "kv_indptr", "mask_indptr"} & outputs.keys():
            outputs[name].zero_()
        return []
    inputs = {"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")}
    if tree_mask is None:
        num_given, num_visible, mask_stride = 0, 0, 1
        absent = {"tree_mask_ptr": None, "custom_mask_ptr": None}
    else:
        num_given, num_visible, mask_stride = axes["mask"], outputs["custom_mask"].shape[0], tree_mask.stride(0)
        absent = {"mask_indptr_ptr": None}
        inputs["tree_mask"] = tree_mask
    block, mask_block = choose_block(num_positions, TILE), choose_block(num_visible, MASK_ENTRIES)
    num_chunks = max(ceil_div(num_positions, block), ceil_div(num_visible, mask_block * num_requests), 1)
    plan = Plan(
        kernels._list_keys_kernel,
        grid=(num_requests, chunks_to_fill(num_requests, num_chunks)),
        sizes={
            "num_requests": num_requests,
            "num_rows": axes["row"],
            "num_nodes": axes["node"],
            "num_positions": num_positions,
            "num_entries": outputs["kv_indices"].shape[0],
            "num_given": num_given,
            "num_visible": num_visible,
            "strides": (*rows.stride(), mask_stride),
        },
        constants={"REQUESTS": power_of_two(num_requests), **absent},
        tunables={"BLOCK": block, "MASK_BLOCK": mask_block},
    )
    return [Launch(plan, inputs, outputs)]


@operation
def idle_attention_metadata(call: Call) -> Launch | None:
    """Lay out lengths and page table of dummy rows; one launch over requests and blocks of pages."""
    axes, outputs, rows = call.axes, call.outputs, call.arguments["req_to_token"]
    if axes["request"] == 0:
        outputs.cu_seqlens_q.zero_()
        outputs.cu_seqlens_k.zero_()
        return None
    num_pages = outputs.page_table.shape[1]
    block = choose_block(num_pages, TILE)
    return Launch(
        Plan(
            kernels._idle_attention_metadata_kernel,
            grid=(axes["request"], max(1, ceil_div(num_pages, block))),
            sizes={
                "num_requests": axes["request"],
                "num_rows": axes["row"],
                "num_new_keys": axes["num_new_keys"],
                "num_pages": num_pages,
                "page_size": axes["page_size"],
                **strides_of(rows, "row", "column"),
            },
            constants={"REQUESTS": power_of_two(axes["request"])},
            tunables={"BLOCK": block},
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )
