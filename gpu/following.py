"""What follows the output of a request: tokens that are forbidden behind a node, and what was output so far."""

import torch

from specsim.gpu.kernels import following as kernels
from specsim.gpu.launching.blocks import power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.host.grammar import BITS_PER_WORD

WORDS = 1024
"""Words of a mask that a program writes at a time: eight a thread of four warps."""

OF_REQUESTS = (
    "draft_token",
    "tree_mask",
    "num_output_tokens",
    "min_tokens",
    "stop_mask",
    "recent_tokens",
    "bad_words",
)


def forbid_tokens(
    draft_token: torch.Tensor,
    tree_mask: torch.Tensor,
    num_output_tokens: torch.Tensor,
    min_tokens: torch.Tensor,
    stop_mask: torch.Tensor,
    recent_tokens: torch.Tensor,
    bad_words: torch.Tensor,
    num_draft_tokens: int,
    vocab_size: int,
) -> torch.Tensor:
    """Pack the tokens that may follow each node; a program owns a node and compares all bad words with its path."""
    return run("forbid_tokens", launch_forbid_tokens, locals())


def launch_forbid_tokens(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes, vocab_mask = call.axes, call.outputs
    num_rows = axes["request"] * axes["num_draft_tokens"]
    if num_rows:
        launch(
            _plan_forbid(num_rows, axes["num_draft_tokens"], axes["vocab"], axes["recent"], axes["word"]),
            inputs=call.contiguous(*OF_REQUESTS),
            outputs={"vocab_mask": vocab_mask},
        )
    return vocab_mask


@planned
def _plan_forbid(num_rows: int, num_nodes: int, vocab: int, num_recent: int, num_bad_words: int) -> Plan:
    num_words = -(-vocab // BITS_PER_WORD)
    return Plan(
        kernels._forbid_tokens_kernel,
        grid=(num_rows,),
        sizes={
            "num_nodes": num_nodes,
            "vocab": vocab,
            "num_recent": num_recent,
            "num_bad_words": num_bad_words,
        },
        constants={
            "NODES": power_of_two(num_nodes),
            "COLUMNS": power_of_two(num_recent + 1),
            "BAD_WORDS": power_of_two(num_bad_words),
        },
        tunables={"BLOCK": choose_block(num_words, WORDS)},
    )


def commit_output_tokens(
    req_pool_indices: torch.Tensor,
    token_counts: torch.Tensor,
    num_output_tokens: torch.Tensor,
    recent_tokens: torch.Tensor,
    accept_index: torch.Tensor,
    predict: torch.Tensor,
    counts_all: torch.Tensor,
) -> None:
    """Add the tokens that a verify committed to what each request's row knows; a program owns a request."""
    run("commit_output_tokens", launch_commit_output_tokens, locals())


def launch_commit_output_tokens(call: Call) -> None:
    """Launch into the buffers of a checked call."""
    axes, given = call.axes, call.arguments
    counts, lengths, recent = (given[name] for name in ("token_counts", "num_output_tokens", "recent_tokens"))
    if axes["request"]:
        launch(
            _plan_commit(
                axes["request"],
                axes["draft"] + 1,
                axes["recent"],
                len(given["predict"]),
                *counts.shape,
                *counts.stride(),
                *lengths.stride(),
                *recent.stride(),
            ),
            inputs=call.contiguous("req_pool_indices", "accept_index", "predict", "counts_all"),
            outputs={"token_counts": counts, "num_output_tokens": lengths, "recent_tokens": recent},
        )


@planned
def _plan_commit(
    num_requests: int,
    width: int,
    num_recent: int,
    num_nodes: int,
    num_rows: int,
    vocab: int,
    count_row_stride: int,
    count_token_stride: int,
    length_stride: int,
    recent_row_stride: int,
    recent_stride: int,
) -> Plan:
    return Plan(
        kernels._commit_output_tokens_kernel,
        grid=(num_requests,),
        sizes={
            "width": width,
            "num_recent": num_recent,
            "num_rows": num_rows,
            "num_nodes": num_nodes,
            "vocab": vocab,
            "count_row_stride": count_row_stride,
            "count_token_stride": count_token_stride,
            "length_stride": length_stride,
            "recent_row_stride": recent_row_stride,
            "recent_stride": recent_stride,
        },
        constants={"PLACES": power_of_two(width), "RECENT": power_of_two(max(num_recent, 1))},
        num_warps=1,
    )
