"""Scheduled verification on the GPU: verify lengths, ragged windows, cuts and commits, one launch each."""

from specsim.config import SURVIVAL_EPS
from specsim.gpu.kernels import scheduled as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of
from specsim.gpu.launching.pointers import words_of
from specsim.gpu.verify import lay_out_verify

ROWS = 256
"""Rows, or requests, of a program that writes a number for each: two a thread of four warps."""

PADDING = 128
"""Rows of padding that a program writes at a time: one a thread of four warps."""

WORDS, INTERPRETED_WORDS, TILE = 512, 1 << 12, 1024
"""Words of a row that a program copies at a time, and those of all its rows: eight a thread of four warps."""


@operation
def schedule_verify_lens(call: Call) -> Launch | None:
    """Admit the drafts that most probably survive; one program searches for the survival at which the budget ends."""
    axes, confidence = call.axes, call.arguments["confidence"]
    if axes["request"] == 0:
        return None
    given = [name for name in ("num_drafts", "survival_eps") if call.arguments[name] is not None]
    absent = {f"{name}_ptr": None for name in ("num_drafts", "survival_eps") if call.arguments[name] is None}
    return Launch(
        Plan(
            kernels._schedule_verify_lens_kernel,
            grid=(1,),
            sizes={
                "num_requests": axes["request"],
                "num_levels": axes["draft"],
                "verify_token_budget": axes["verify_token_budget"],
                "min_verify_len": axes["min_verify_len"],
                "max_verify_len": axes["max_verify_len"],
                "strides": confidence.stride(),
            },
            constants={"EPS": SURVIVAL_EPS, "REQUESTS": power_of_two(axes["request"]), **absent},
        ),
        inputs={"confidence": confidence, **call.contiguous(*given)},
        outputs=call.returned(),
    )


@operation
def ragged_verify_window(call: Call) -> Launch:
    """Lay out the rows that are verified; a program owns a request and a share of the padding."""
    axes, rows = call.axes, call.arguments["req_to_token"]
    return Launch(
        Plan(
            kernels._ragged_verify_window_kernel,
            grid=(max(axes["request"], 1),),
            sizes={
                "num_requests": axes["request"],
                "num_nodes": axes["node"],
                "num_tokens": axes["num_tokens"],
                "num_rows": rows.shape[0],
                "row_width": rows.shape[1],
                **strides_of(rows, "row", "column"),
            },
            constants={"REQUESTS": power_of_two(axes["request"]), "NODES": power_of_two(axes["node"])},
            tunables={"BLOCK": choose_block(max(axes["num_tokens"], 1), PADDING)},
        ),
        inputs={
            "req_to_token": rows,
            **call.contiguous("candidates", "verify_lens", "req_pool_indices", "seq_lens"),
        },
        outputs=call.returned(),
    )


@operation
def pad_verify_lens_to_bucket(call: Call) -> Launch | None:
    """Spread the rows that a graph has left; a program owns a block of its requests and adds up all lengths."""
    axes = call.axes
    num_padded = axes["num_padded_requests"]
    if num_padded == 0:
        return None
    block = choose_block(num_padded, ROWS)
    return Launch(
        Plan(
            kernels._pad_verify_lens_to_bucket_kernel,
            grid=(ceil_div(num_padded, block),),
            sizes={
                "num_requests": axes["request"],
                "num_padded": num_padded,
                "num_tokens": axes["num_tokens"],
                "max_verify_len": axes["max_verify_len"],
            },
            constants={"REQUESTS": power_of_two(axes["request"])},
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("verify_lens"),
        outputs=call.returned(),
    )


@operation
def scatter_compact_to_strided(call: Call) -> Launch | None:
    """Bring verified rows to blocks of a whole tree, as plain bytes; a program owns a tile of a request's rows."""
    values, strided, num_nodes = call.arguments["values"], call.outputs, call.axes["num_draft_tokens"]
    if strided.numel() == 0:
        return None
    if values.numel() == 0:
        strided.zero_()
        return None
    source, target = words_of(values.contiguous()), words_of(strided)
    word = source.dtype if source.element_size() <= target.element_size() else target.dtype
    source, target = source.view(word), target.view(word)
    num_words = source.shape[1]
    words = choose_block(num_words, WORDS, INTERPRETED_WORDS)
    rows = choose_block(num_nodes, max(1, TILE // words), LARGEST_TILE // words)
    return Launch(
        Plan(
            kernels._scatter_compact_to_strided_kernel,
            grid=(call.axes["request"], ceil_div(num_nodes, rows), ceil_div(num_words, words)),
            sizes={
                "num_requests": call.axes["request"],
                "num_nodes": num_nodes,
                "num_tokens": source.shape[0],
                "num_words": num_words,
            },
            constants={"REQUESTS": power_of_two(call.axes["request"])},
            tunables={"ROWS": rows, "WORDS": words},
        ),
        inputs={"values": source, **call.contiguous("verify_lens")},
        outputs={"strided": target},
    )


@operation
def ragged_verify_metadata(call: Call) -> Launch | None:
    """Lay out lengths and page table of a ragged forward, by the kernel of ``target_verify_metadata``."""
    return lay_out_verify(call, 0, "verify_lens")


@operation
def cap_accepted_drafts(call: Call) -> Launch | None:
    """Cut an acceptance to the drafts that were scheduled; a program owns a block of requests."""
    axes = call.axes
    if axes["request"] == 0:
        return None
    block = choose_block(axes["request"], ROWS)
    return Launch(
        Plan(
            kernels._cap_accepted_drafts_kernel,
            grid=(ceil_div(axes["request"], block),),
            sizes={"num_requests": axes["request"], "num_nodes": axes["node"]},
            constants={"IS_COMPACT": bool(axes["is_compact"])},
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("candidates", "num_accepted_drafts", "bonus_tokens", "verify_lens"),
        outputs=call.returned(),
    )


@operation
def commit_inject_layout(call: Call) -> Launch | None:
    """Lay out where committed rows enter the draft cache; a program owns a block of flat rows."""
    axes, rows, slot_map = call.axes, call.arguments["req_to_token"], call.arguments["slot_map"]
    num_entries = axes["request"] * axes["num_draft_tokens"]
    if num_entries == 0:
        return None
    block = choose_block(num_entries, ROWS)
    given = [name for name in ("verify_lens", "slot_map") if call.arguments[name] is not None]
    absent = {f"{name}_ptr": None for name in ("verify_lens", "slot_map") if call.arguments[name] is None}
    return Launch(
        Plan(
            kernels._commit_inject_layout_kernel,
            grid=(ceil_div(num_entries, block),),
            sizes={
                "num_entries": num_entries,
                "num_nodes": axes["num_draft_tokens"],
                "num_rows": rows.shape[0],
                "row_width": rows.shape[1],
                **strides_of(rows, "row", "column"),
                "ring_size": axes["ring_size"],
                "num_places": 0 if slot_map is None else slot_map.shape[0],
            },
            constants={"HAS_RING": axes["ring_size"] > 0, **absent},
            tunables={"BLOCK": block},
        ),
        inputs={
            "req_to_token": rows,
            **call.contiguous("req_pool_indices", "seq_lens", "commit_lens", *given),
        },
        outputs=call.returned(),
    )
