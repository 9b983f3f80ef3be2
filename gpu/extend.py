"""Extend on the GPU: the inputs with which the draft model catches up."""

from specsim.gpu.kernels import extend as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, strides_of

TOKENS, REQUESTS = 32, 128
"""Tokens of a program, and requests of a step of its search: 32 comparisons a thread of four warps."""

INTERPRETED_REQUESTS = 512
"""Requests of a step under the interpreter, so that a tile has room for as many tokens."""

SHIFTED_TOKENS = 1024
"""Tokens that a program shifts: eight a thread of four warps."""

ROWS = 256
"""Rows of a program that writes positions: two a thread of four warps."""

KEYS, INTERPRETED_KEYS = 1024, 4096
"""Slots that a program copies at a time: eight a thread of four warps."""

LENGTHS = 1024
"""Lengths that a program adds up at a time: eight a thread of four warps."""


@operation
def rotate_prefill_input_ids(call: Call) -> Launch | None:
    """Shift each prompt left by one and append its tail token; a program owns a block of tokens.

    Every program adds up the lengths of all prompts, 4 bytes a request from L2, to find those that end in its block.
    """
    num_tokens, num_requests = call.axes["token"], call.axes["request"]
    if num_tokens == 0:
        return None
    tokens = choose_block(num_tokens, SHIFTED_TOKENS)
    return Launch(
        Plan(
            kernels._rotate_prefill_input_ids_kernel,
            grid=(ceil_div(num_tokens, tokens),),
            sizes={"num_tokens": num_tokens, "num_requests": num_requests},
            tunables={"TOKENS": tokens, "REQUESTS": choose_block(max(num_requests, 1), LENGTHS)},
        ),
        inputs=call.contiguous("input_ids", "extend_lens", "tail_tokens"),
        outputs=call.returned(),
    )


@operation
def create_extend_after_decode_spec_info(call: Call) -> Launch | None:
    """Lay out ragged positions and pick each request's last token; a program owns a block of tokens."""
    num_tokens, num_requests = call.axes["token"], call.axes["request"]
    if num_tokens == 0 or num_requests == 0:
        return None
    requests = choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)
    tokens = choose_block(num_tokens, TOKENS, LARGEST_TILE // requests)
    return Launch(
        Plan(
            kernels._create_extend_after_decode_spec_info_kernel,
            grid=(ceil_div(num_tokens, tokens),),
            sizes={"num_tokens": num_tokens, "num_requests": num_requests},
            tunables={"TOKENS": tokens, "REQUESTS": requests},
        ),
        inputs=call.contiguous("input_ids", "seq_lens", "num_accepted_tokens"),
        outputs=call.returned(),
    )


@operation
def prepare_for_extend_to_fill_draft_kvcache(call: Call) -> Launch | None:
    """Lay out positions, forward lengths and the selected row; a program owns a block of rows."""
    num_nodes = call.axes["num_draft_tokens"]
    num_rows = call.axes["request"] * num_nodes
    if num_rows == 0:
        return None
    block = choose_block(num_rows, ROWS)
    return Launch(
        Plan(
            kernels._prepare_for_extend_to_fill_draft_kvcache_kernel,
            grid=(ceil_div(num_rows, block),),
            sizes={"num_rows": num_rows, "num_nodes": num_nodes},
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("seq_lens", "num_accepted_tokens"),
        outputs=call.returned(),
    )


@operation
def generate_attn_arg_prefill(call: Call) -> Launch:
    """Lay out the metadata of a ragged extend; grid: request and one more, chunks of its keys.

    Every program adds up the lengths before its request: 4 or 8 bytes a request, from L2; a slot is read and written
    once.
    """
    axes, rows = call.axes, call.arguments["req_to_token"]
    num_requests, row_width = axes["request"], axes["position"]
    block = choose_block(max(row_width, 1), KEYS, INTERPRETED_KEYS)
    return Launch(
        Plan(
            kernels._generate_attn_arg_prefill_kernel,
            grid=(num_requests + 1, chunks_to_fill(num_requests + 1, ceil_div(row_width, block))),
            sizes={
                "num_requests": num_requests,
                "num_rows": axes["row"],
                "row_width": row_width,
                "num_locations": axes["kv_lens_sum"],
                **strides_of(rows, "row", "position"),
            },
            tunables={"REQUESTS": choose_block(max(num_requests, 1), LENGTHS), "BLOCK": block},
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "kv_lens", "num_accepted_tokens")},
        outputs=call.returned(),
    )
