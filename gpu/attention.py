"""Attention: what a verify forward hands to kernels of three kinds, for trees, and attention itself.

Sizes come from scalars alone, and how keys are split from shapes.
"""

import torch

from specsim.gpu.kernels import attention as kernels
from specsim.gpu.kernels import tree_attention as of_trees
from specsim.gpu.launching.blocks import INTERPRETED, LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Buffers, Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, strides_of

TILE = 1024
"""Slots that a program copies, or pairs of nodes that it looks at, at a time: eight a thread of four warps."""

MASK_ENTRIES = 8192
"""Entries of a mask that a program copies: 64 bytes a thread of four warps."""

LEAST_TILE = 16
"""Rows, keys and columns of the smallest product of matrices."""

ATTENTION_ROWS = 64
"""Query heads of nodes of one program: 16 nodes of four heads, and what four warps multiply at a time."""

TILE_BYTES = 8192
"""Bytes of a tile of keys, and of one of values: of 32 keys of 128 bfloat16 numbers."""

STAGES = 5
"""Tiles that are on their way at a time."""

PROGRAMS_AT_ONCE = 264
"""Programs that run at a time: two for each of an H100's 132 multiprocessors, by the memory of their tiles."""

KEYS_OF_SPLIT = 256
"""Fewest keys of a share, and so of what is worth a program of its own."""

MOST_SPLITS = 128
JOINED_ROWS = 4


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


@operation
def tree_attention(call: Call) -> list[Launch]:
    """Attend from every node to prefix and window; one launch, and one that joins the parts where keys are split.

    A program reads one share of the keys of one KV head for all its query heads of up to 16 nodes or more.
    """
    axes, arguments, outputs = call.axes, call.arguments, call.returned()
    num_requests, num_nodes, num_heads, head_dim = (axes[name] for name in ("request", "node", "head", "head_dim"))
    if num_requests == 0:
        return []
    q, keys, values, table, mask = (
        arguments[name] for name in ("q", "k_buffer", "v_buffer", "page_table", "tree_mask")
    )
    group, num_keys = num_heads // axes["kv_head"], axes["page"] * axes["page_size"]
    columns = max(LEAST_TILE, power_of_two(head_dim))
    # NOTE: no matrix unit multiplies float32 without rounding it; small tiles keep its multiplications in registers.
    is_small = q.dtype is torch.float32
    rows = max(LEAST_TILE, choose_block(num_nodes * group, LEAST_TILE if is_small else ATTENTION_ROWS))
    most_keys = LEAST_TILE if is_small else TILE_BYTES // (columns * q.element_size())
    tile = max(LEAST_TILE, choose_block(num_keys, most_keys, LEAST_TILE * LEAST_TILE))
    num_blocks = axes["kv_head"] * ceil_div(num_nodes * group, rows)
    most = splits_of(num_requests * num_blocks, rows, num_keys)
    num_splits = chunks_to_fill(1, most, most)
    kind = {"HEAD_DIM": head_dim, "WIDE": INTERPRETED}
    attend = Plan(
        of_trees._tree_attention_kernel,
        grid=(num_blocks, num_splits, num_requests),
        sizes={
            "num_nodes": num_nodes,
            "pool_sizes": (num_heads, axes["slot"], axes["page"]),
            "strides": (*q.stride(), *keys.stride(), *values.stride(), *table.stride(), *mask.stride()),
        },
        constants={
            "GROUP": group,
            "PAGE_SIZE": axes["page_size"],
            **kind,
            **({"softmax_scale_ptr": None} if arguments["softmax_scale"] is None else {}),
            **({"part_ptrs": None} if num_splits == 1 else {}),
        },
        tunables={"ROWS": rows, "KEYS": tile, "COLUMNS": columns},
        options={"num_stages": STAGES},
    )
    inputs: Buffers = {
        **{name: arguments[name] for name in ("q", "k_buffer", "v_buffer", "page_table", "tree_mask")},
        **call.contiguous("cache_seqlens", *(() if arguments["softmax_scale"] is None else ("softmax_scale",))),
    }
    if num_splits == 1:
        return [Launch(attend, inputs, outputs)]
    num_rows = num_requests * num_nodes * num_heads
    scratch: Buffers = {
        "part": (
            call.scratch(num_splits, num_rows, columns, dtype=torch.float32),
            call.scratch(num_splits, num_rows, dtype=torch.float32),
        )
    }
    joined = choose_block(num_rows, JOINED_ROWS)
    join = Plan(
        of_trees._join_parts_kernel,
        grid=(ceil_div(num_rows, joined),),
        sizes={"num_splits": num_splits, "num_rows": num_rows},
        constants=kind,
        tunables={"ROWS": joined, "COLUMNS": columns},
    )
    return [Launch(plan, inputs, outputs, scratch) for plan in (attend, join)]


def splits_of(num_programs: int, num_rows: int, num_keys: int) -> int:
    """Return over how many programs to split the keys that so many programs attend to, of so many rows each.

    Waves of programs should be full, and parts, which are written and read once more, few beside keys and values.
    """

    def cost(num_splits: int) -> float:
        programs = num_programs * num_splits
        waves = ceil_div(programs, PROGRAMS_AT_ONCE) * PROGRAMS_AT_ONCE / programs
        return waves if num_splits == 1 else waves + 2 * num_rows * num_splits / num_keys

    return min(range(1, 1 + max(1, min(MOST_SPLITS, num_keys // KEYS_OF_SPLIT))), key=cost)
