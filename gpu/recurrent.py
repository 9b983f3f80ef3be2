"""Recurrent states on the GPU: which are kept, and the copies of all components and layers in one launch."""

from collections.abc import Sequence

import torch

from specsim.gpu.kernels import recurrent as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.pointers import has_strips
from specsim.gpu.launching.strips import SLOTS, STEPS, StripTable, build_paired_tables
from specsim.gpu.move import WORD_TYPES

REQUESTS = 128
"""Requests of a program that finds steps: one a thread of four warps."""

WORDS = 1024
"""Words of a program that copies states: eight a thread of four warps, of one large state or of several small ones."""


@operation
def get_recurrent_steps(call: Call) -> Launch | None:
    """Find the node whose state is committed, and that of a snapshot; a program owns a block of requests."""
    axes = call.axes
    num_requests, interval = axes["request"], axes["interval"]
    if num_requests == 0:
        return None
    requests = choose_block(num_requests, REQUESTS)
    return Launch(
        Plan(
            kernels._get_recurrent_steps_kernel,
            grid=(ceil_div(num_requests, requests),),
            sizes={
                "num_requests": num_requests,
                "num_nodes": axes["node"],
                "width": axes["draft"] + 1,
                "interval": interval,
            },
            constants={"HAS_SNAPSHOTS": interval > 0},
            tunables={"REQUESTS": requests},
        ),
        inputs=call.contiguous("accept_index", "num_accepted_tokens", "seq_lens"),
        outputs=call.returned(),
    )


@operation
def commit_recurrent_states(call: Call) -> Launch | None:
    """Copy of every component the states after two nodes of each request.

    One launch for all buffers, whatever their dtypes and widths: a program owns a tile of words of one strip for a
    block of requests, and reads nothing that is written. ``KVBuffers`` of the states and ``KVBuffers.of_steps`` carry
    the addresses; for lists, and where an entry of a buffer is no contiguous block, tables are built in each call,
    which a CUDA graph cannot capture.
    """
    axes, num_requests = call.axes, call.axes["request"]
    state_buffers, step_buffers = (call.arguments[name] for name in ("state_buffers", "step_buffers"))
    if not state_buffers or not num_requests:
        return None
    states, steps = _tables_of(state_buffers, step_buffers)
    if not states.num_strips:
        return None
    word = min(states.word, steps.word, key=lambda one: one.itemsize)
    state_scale, step_scale = states.word.itemsize // word.itemsize, steps.word.itemsize // word.itemsize
    most_words = states.most_words * state_scale
    words = choose_block(most_words, WORDS, LARGEST_TILE)
    requests = choose_block(num_requests, max(1, WORDS // words), max(1, LARGEST_TILE // words))
    num_tiles = ceil_div(most_words, words)
    # NOTE: the buffers are written through the addresses of the table.
    return Launch(
        Plan(
            kernels._commit_recurrent_states_kernel,
            grid=(states.num_strips * num_tiles, ceil_div(num_requests, requests)),
            sizes={
                "num_requests": num_requests,
                "num_states": axes["state"],
                "num_nodes": axes["node"],
                "num_tiles": num_tiles,
            },
            constants={
                "WORD": WORD_TYPES[word],
                "STATE_SCALE": state_scale,
                "STEP_SCALE": step_scale,
                "IS_ALIGNED": states.is_aligned and steps.is_aligned and words > 1,
            },
            tunables={"REQUESTS": requests, "WORDS": words},
        ),
        inputs={
            "steps": steps.table,
            **call.contiguous("state_slots", "commit_step", "snapshot_slots", "snapshot_step"),
        },
        outputs={"states": states.table},
    )


def _tables_of(
    state_buffers: Sequence[torch.Tensor], step_buffers: Sequence[torch.Tensor]
) -> tuple[StripTable, StripTable]:
    """Return two tables that are cut alike: those that the buffers carry, where an entry of each is one strip."""
    if has_strips(state_buffers, SLOTS) and has_strips(step_buffers, STEPS):
        states, steps = state_buffers.strips, step_buffers.strips
        if states.is_whole and steps.is_whole:
            return states, steps
    return build_paired_tables(state_buffers, step_buffers)
