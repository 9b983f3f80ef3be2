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
    """Lay out one pass over prefix and window under the full mask; a launch for it, and one that copies the mask."""
    tree_mask, outputs = call.arguments["tree_mask"], call.returned()
    custom_mask = outputs.pop("custom_mask")
    launches = _list_keys(call, outputs, has_window=True)
    num_entries = custom_mask.shape[0]
    if num_entries == 0:
        return launches
    block = choose_block(num_entries, MASK_ENTRIES)
    copy = Plan(
        kernels._continue_mask_kernel,
        grid=(ceil_div(num_entries, block),),
        sizes={"num_given": tree_mask.shape[0], "num_entries": num_entries, **strides_of(tree_mask, "mask")},
        tunables={"BLOCK": block},
    )
    return [*launches, Launch(copy, inputs={"tree_mask": tree_mask}, outputs={"custom_mask": custom_mask})]


@operation
def verify_extend_metadata(call: Call) -> list[Launch]:
    """Lay out the keys of the prefix alone, and the offsets of the window's mask; one launch."""
    return _list_keys(call, call.returned(), has_window=False)


def _list_keys(call: Call, outputs: dict[str, torch.Tensor], *, has_window: bool) -> list[Launch]:
    """List the keys of the prefix, and of the window where no offsets of its mask are asked for."""
    axes, rows = call.axes, call.arguments["req_to_token"]
    num_requests, num_positions = axes["request"], axes["position"]
    if num_requests == 0:
        for name, offsets in outputs.items():
            if name != "kv_indices":
                offsets.zero_()
        return []
    block = choose_block(num_positions, TILE)
    plan = Plan(
        kernels._list_keys_kernel,
        grid=(num_requests, chunks_to_fill(num_requests, max(1, ceil_div(num_positions, block)))),
        sizes={
            "num_requests": num_requests,
            "num_rows": axes["row"],
            "num_nodes": axes["node"],
            "num_positions": num_positions,
            "num_entries": outputs["kv_indices"].shape[0],
            **strides_of(rows, "row", "column"),
        },
        constants={
            "HAS_WINDOW": has_window,
            "REQUESTS": power_of_two(num_requests),
            **({"mask_indptr_ptr": None} if has_window else {}),
        },
        tunables={"BLOCK": block},
    )
    return [Launch(plan, {"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")}, outputs)]


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
