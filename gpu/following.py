"""What follows the output of a request: tokens that are forbidden after a node, and what was output so far."""

from specsim.gpu.kernels import following as kernels
from specsim.gpu.launching.blocks import ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of
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


@operation
def forbid_tokens(call: Call) -> Launch | None:
    """Pack the tokens that may follow each node; a program owns a node and compares all bad words with its path."""
    axes = call.axes
    num_nodes, vocab, num_recent, num_bad_words = (
        axes[name] for name in ("num_draft_tokens", "vocab", "recent", "word")
    )
    num_rows = axes["request"] * num_nodes
    if num_rows == 0:
        return None
    return Launch(
        Plan(
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
            tunables={"BLOCK": choose_block(ceil_div(vocab, BITS_PER_WORD), WORDS)},
        ),
        inputs=call.contiguous(*OF_REQUESTS),
        outputs=call.returned(),
    )


@operation
def commit_output_tokens(call: Call) -> Launch | None:
    """Add the tokens that a verify committed to what each request's row knows; a program owns a request."""
    axes, given = call.axes, call.arguments
    counts, lengths, recent = (given[name] for name in ("token_counts", "num_output_tokens", "recent_tokens"))
    if axes["request"] == 0:
        return None
    width, num_recent = axes["draft"] + 1, axes["recent"]
    return Launch(
        Plan(
            kernels._commit_output_tokens_kernel,
            grid=(axes["request"],),
            sizes={
                "width": width,
                "num_recent": num_recent,
                "num_rows": counts.shape[0],
                "num_nodes": len(given["predict"]),
                "vocab": counts.shape[1],
                **strides_of(counts, "count_row", "count_token"),
                **strides_of(lengths, "length"),
                **strides_of(recent, "recent_row", "recent"),
            },
            constants={"PLACES": power_of_two(width), "RECENT": power_of_two(max(num_recent, 1))},
            num_warps=1,
        ),
        inputs=call.contiguous("req_pool_indices", "accept_index", "predict", "counts_all"),
        outputs={"token_counts": counts, "num_output_tokens": lengths, "recent_tokens": recent},
    )
