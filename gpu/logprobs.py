"""Log-probabilities of output tokens on the GPU: only rows of accepted nodes are read, and nothing is sorted."""

from specsim.gpu.kernels import logprobs as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan

ROW_BLOCK = 4096
"""Logits of its row that a program reads at a time: eight a thread of sixteen warps."""


@operation
def gather_output_logprobs(call: Call) -> Launch | None:
    """Tell the log-probabilities of output tokens, of the most probable ones and of listed ones.

    A program owns an entry of ``accept_index`` and reads its row twice, once more for each of the most probable tokens,
    from the cache. Weights are float32, their sum float64.
    """
    axes, logits = call.axes, call.arguments["logits"]
    width = axes["draft"] + 1
    num_entries = axes["request"] * width
    if num_entries == 0:
        return None
    given = () if call.arguments["temperature"] is None else ("temperature",)
    num_rows, vocab = logits.shape
    tokens = choose_block(vocab, ROW_BLOCK)
    entries = choose_block(num_entries, 1, max(1, LARGEST_TILE // tokens))
    return Launch(
        Plan(
            kernels._gather_output_logprobs_kernel,
            grid=(ceil_div(num_entries, entries),),
            sizes={
                "num_entries": num_entries,
                "num_rows": num_rows,
                "vocab": vocab,
                "width": width,
                "num_top": axes["top"],
                "num_listed": axes["listed"],
                "strides": logits.stride(),
            },
            constants={
                "IS_CLAMPED": bool(axes["is_clamped"]),
                "LISTED": power_of_two(axes["listed"]) if axes["listed"] else 0,
                **({} if given else {"temperature_ptr": None}),
            },
            tunables={"ENTRIES": entries, "BLOCK": tokens},
            num_warps=16,
        ),
        inputs={"logits": logits, **call.contiguous("accept_index", "predict", "token_ids", *given)},
        outputs=call.returned(),
    )
