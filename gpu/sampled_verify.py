"""Sampled verify: the target's own draw of every row, which drafts are compared with."""

import torch

from specsim.gpu.kernels import sampled_verify as kernels
from specsim.gpu.launching.blocks import ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Buffers, Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan
from specsim.gpu.probabilities import CHUNK, FILTERS, filter_rows
from specsim.host.noise import WORDS

QUADS = 512
"""Counters of a program, each of four words: sixteen tokens a thread of four warps."""


@operation
def sample_target_predict(call: Call) -> list[Launch]:
    """Draw a token from every row: a race over chunks of rows, and one among their winners.

    Noise is made in the kernel, from a counter-based generator; arrivals are in float32. Races of short rows, and of
    rows with filters, run on their probabilities; others on logits, which only the race reads.
    """
    num_requests, num_nodes, vocab = (call.axes[name] for name in ("request", "node", "vocab"))
    num_rows, logits = num_requests * num_nodes, call.arguments["logits"]
    if num_rows == 0:
        return []
    quads = choose_block(ceil_div(vocab, WORDS), QUADS)
    num_chunks, reads_logits = ceil_div(vocab, WORDS * quads), vocab > choose_block(vocab, CHUNK)
    rows = call.scratch(num_rows, vocab, dtype=torch.float32)
    launches = filter_rows(call, rows, "logits", num_nodes, *FILTERS, keeps_open=reads_logits)
    filters = tuple(launches[0].inputs[name] for name in FILTERS)
    race = Plan(
        kernels._race_kernel,
        grid=(num_rows, num_chunks),
        sizes={"num_nodes": num_nodes, "row_sizes": (vocab, *logits.stride())},
        constants={"READS_LOGITS": reads_logits, **({"block_ptrs": None} if num_chunks == 1 else {})},
        tunables={"QUADS": quads},
        num_warps=max(1, min(4, quads // 32)),
    )
    inputs = {"logits": logits, "row": rows, "filter": filters, **call.contiguous("seeds", "positions")}
    outputs = {"target_predict": call.outputs}
    if num_chunks == 1:
        return [*launches, Launch(race, inputs, outputs)]
    # NOTE: of each chunk when its winner arrives, relative to what, and who it is.
    kinds = (torch.float32, torch.float32, torch.int32)
    winners: Buffers = {"block": tuple(call.scratch(num_rows, num_chunks, dtype=dtype) for dtype in kinds)}
    finish = Plan(
        kernels._finish_race_kernel,
        grid=(num_rows,),
        sizes={"num_chunks": num_chunks},
        constants={"CHUNKS": power_of_two(num_chunks)},
        num_warps=1,
    )
    return [*launches, Launch(race, inputs, outputs, winners), Launch(finish, {}, outputs, winners)]
