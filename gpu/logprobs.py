"""Log-probabilities of output tokens on the GPU: only rows of accepted nodes are read, and nothing is sorted."""

import torch

from specsim.gpu.kernels import logprobs as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import GatherOutputLogprobsOutputs

ROW_BLOCK = 4096
"""Logits of its row that a program reads at a time: eight a thread of sixteen warps."""


def gather_output_logprobs(
    logits: torch.Tensor,
    accept_index: torch.Tensor,
    predict: torch.Tensor,
    temperature: torch.Tensor | None,
    token_ids: torch.Tensor,
    num_top: int,
    is_clamped: bool = True,
) -> GatherOutputLogprobsOutputs[torch.Tensor]:
    """Tell the log-probabilities of output tokens, of the most probable ones and of listed ones.

    A program owns an entry of ``accept_index`` and reads its row twice, once more for each of the most probable tokens,
    from the cache. Weights are float32, their sum float64.
    """
    return run("gather_output_logprobs", launch_gather_output_logprobs, locals())


def launch_gather_output_logprobs(call: Call) -> GatherOutputLogprobsOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, logits = call.axes, call.arguments["logits"]
    num_entries = axes["request"] * (axes["draft"] + 1)
    if num_entries:
        given = () if call.arguments["temperature"] is None else ("temperature",)
        launch(
            _plan_gather(
                num_entries,
                *logits.shape,
                axes["draft"] + 1,
                axes["top"],
                axes["listed"],
                axes["is_clamped"],
                bool(given),
                *logits.stride(),
            ),
            inputs={"logits": logits, **call.contiguous("accept_index", "predict", "token_ids", *given)},
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_gather(
    num_entries: int,
    num_rows: int,
    vocab: int,
    width: int,
    num_top: int,
    num_listed: int,
    is_clamped: int,
    has_temperature: bool,
    row_stride: int,
    column_stride: int,
) -> Plan:
    tokens = choose_block(vocab, ROW_BLOCK)
    entries = choose_block(num_entries, 1, max(1, LARGEST_TILE // tokens))
    return Plan(
        kernels._gather_output_logprobs_kernel,
        grid=(ceil_div(num_entries, entries),),
        sizes={
            "num_entries": num_entries,
            "num_rows": num_rows,
            "vocab": vocab,
            "width": width,
            "num_top": num_top,
            "num_listed": num_listed,
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        constants={
            "IS_CLAMPED": bool(is_clamped),
            "LISTED": power_of_two(num_listed) if num_listed else 0,
            **({} if has_temperature else {"temperature_ptr": None}),
        },
        tunables={"ENTRIES": entries, "BLOCK": tokens},
        num_warps=16,
    )
