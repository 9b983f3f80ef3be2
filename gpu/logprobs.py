"""Log-probabilities of output tokens on the GPU: only rows of accepted nodes are read, and nothing is sorted."""

import torch

from specsim.gpu.kernels import logprobs as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, Size

CHUNK = 4096
"""Logits of its row that a program reads: 32 a thread of four warps, in registers."""

UNIT = 8
"""Neighbouring logits of which a program keeps the largest: 16 bytes of bfloat16, one load."""


@operation
def gather_output_logprobs(call: Call) -> list[Launch]:
    """Tell the log-probabilities of output tokens, of the most probable ones and of listed ones, in two launches.

    A program of the first owns a chunk of the row of an entry of ``accept_index``, which it reads once, and the most
    probable of its tokens; one of the second owns an entry. Weights are float32, their sums float64 by chunks, which
    depend on the vocabulary alone.
    """
    axes, logits = call.axes, call.arguments["logits"]
    width, num_top = axes["draft"] + 1, axes["top"]
    num_entries = axes["request"] * width
    if num_entries == 0:
        return []
    given = () if call.arguments["temperature"] is None else ("temperature",)
    absent = {} if given else {"temperature_ptr": None}
    num_rows, vocab = logits.shape
    chunk = choose_block(vocab, CHUNK)
    num_chunks, unit = ceil_div(vocab, chunk), min(UNIT, chunk)
    chunks = power_of_two(num_chunks)
    sizes: dict[str, Size] = {
        "num_entries": num_entries,
        "num_rows": num_rows,
        "vocab": vocab,
        "width": width,
        "num_top": num_top,
        "strides": logits.stride(),
    }
    read_entries = choose_block(num_entries, 1, max(1, LARGEST_TILE // chunk))
    score = Plan(
        kernels._score_chunks_kernel,
        grid=(ceil_div(num_entries, read_entries), num_chunks),
        sizes=sizes,
        constants=absent,
        tunables={"ENTRIES": read_entries, "UNITS": chunk // unit, "UNIT": unit},
        num_warps=max(1, min(4, chunk // 1024)),
    )
    entries = choose_block(num_entries, 1, max(1, LARGEST_TILE // chunks))
    gather = Plan(
        kernels._gather_output_logprobs_kernel,
        grid=(ceil_div(num_entries, entries),),
        sizes={**sizes, "num_listed": axes["listed"], "num_chunks": num_chunks},
        constants={
            "IS_CLAMPED": bool(axes["is_clamped"]),
            "LISTED": power_of_two(axes["listed"]) if axes["listed"] else 0,
            "CHUNKS": chunks,
            **absent,
        },
        tunables={"ENTRIES": entries},
        num_warps=1,
    )
    inputs = {"logits": logits, **call.contiguous("accept_index", "predict", "token_ids", *given)}
    # NOTE: of each chunk its largest logit, its weight, and the keys of its most probable tokens.
    chunks_of_entries = (
        call.scratch(num_entries, num_chunks, dtype=torch.float32),
        call.scratch(num_entries, num_chunks, dtype=torch.float64),
        call.scratch(num_entries, num_chunks, num_top, dtype=torch.int64),
    )
    outputs, scratch = {"report": tuple(call.outputs)}, {"chunk": chunks_of_entries}
    return [Launch(plan, inputs, outputs, scratch) for plan in (score, gather)]
