"""Recurrent states on the GPU: which are kept, and the copies of all components and layers in one launch."""

from collections.abc import Sequence

import torch

from specsim.gpu.kernels import recurrent as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.gpu.launching.pointers import has_strips
from specsim.gpu.launching.strips import SLOTS, STEPS, StripTable, build_paired_tables
from specsim.gpu.move import WORD_TYPES
from specsim.operations.outputs import GetRecurrentStepsOutputs

REQUESTS = 128
"""Requests of a program that finds steps: one a thread of four warps."""

WORDS = 1024
"""Words of a program that copies states: eight a thread of four warps, of one large state or of several small ones."""


def get_recurrent_steps(
    accept_index: torch.Tensor,
    num_accepted_tokens: torch.Tensor,
    seq_lens: torch.Tensor,
    num_draft_tokens: int,
    interval: int,
) -> GetRecurrentStepsOutputs[torch.Tensor]:
    """Find the node whose state is committed, and that of a snapshot; a program owns a block of requests."""
    return run("get_recurrent_steps", launch_get_recurrent_steps, locals())


def launch_get_recurrent_steps(call: Call) -> GetRecurrentStepsOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["request"]:
        launch(
            _plan_steps(axes["request"], axes["node"], axes["draft"] + 1, axes["interval"]),
            inputs=call.contiguous("accept_index", "num_accepted_tokens", "seq_lens"),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_steps(num_requests: int, num_nodes: int, width: int, interval: int) -> Plan:
    requests = choose_block(num_requests, REQUESTS)
    return Plan(
        kernels._get_recurrent_steps_kernel,
        grid=(ceil_div(num_requests, requests),),
        sizes={"num_requests": num_requests, "num_nodes": num_nodes, "width": width, "interval": interval},
        constants={"HAS_SNAPSHOTS": interval > 0},
        tunables={"REQUESTS": requests},
    )


def commit_recurrent_states(
    state_buffers: Sequence[torch.Tensor],
    step_buffers: Sequence[torch.Tensor],
    state_slots: torch.Tensor,
    commit_step: torch.Tensor,
    snapshot_slots: torch.Tensor,
    snapshot_step: torch.Tensor,
) -> None:
    """Copy of every component the states after two nodes of each request.

    One launch for all buffers, whatever their dtypes and widths: a program owns a tile of words of one strip for a
    block of requests, and reads nothing that is written. ``KVBuffers`` of the states and ``KVBuffers.of_steps`` carry
    the addresses; for lists, and where an entry of a buffer is no contiguous block, tables are built in each call,
    which a CUDA graph cannot capture.
    """
    run("commit_recurrent_states", launch_commit_recurrent_states, locals())


def launch_commit_recurrent_states(call: Call) -> None:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    state_buffers, step_buffers = (call.arguments[name] for name in ("state_buffers", "step_buffers"))
    if not state_buffers or not axes["request"]:
        return
    states, steps = _tables_of(state_buffers, step_buffers)
    if not states.num_strips:
        return
    # NOTE: the buffers are written through the addresses of the table.
    launch(
        _plan_commit(axes["request"], axes["state"], axes["node"], states.num_strips, *_words_of(states, steps)),
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


def _words_of(states: StripTable, steps: StripTable) -> tuple[int, torch.dtype, int, int, bool]:
    """Return words of the widest strip, the word, how many of it a word of either table has, and their alignment."""
    word = min(states.word, steps.word, key=lambda one: one.itemsize)
    scales = states.word.itemsize // word.itemsize, steps.word.itemsize // word.itemsize
    return states.most_words * scales[0], word, *scales, states.is_aligned and steps.is_aligned


@planned
def _plan_commit(
    num_requests: int,
    num_states: int,
    num_nodes: int,
    num_strips: int,
    most_words: int,
    word: torch.dtype,
    state_scale: int,
    step_scale: int,
    is_aligned: bool,
) -> Plan:
    words = choose_block(most_words, WORDS, LARGEST_TILE)
    requests = choose_block(num_requests, max(1, WORDS // words), max(1, LARGEST_TILE // words))
    num_tiles = ceil_div(most_words, words)
    return Plan(
        kernels._commit_recurrent_states_kernel,
        grid=(num_strips * num_tiles, ceil_div(num_requests, requests)),
        sizes={
            "num_requests": num_requests,
            "num_states": num_states,
            "num_nodes": num_nodes,
            "num_tiles": num_tiles,
        },
        constants={
            "WORD": WORD_TYPES[word],
            "STATE_SCALE": state_scale,
            "STEP_SCALE": step_scale,
            "IS_ALIGNED": is_aligned and words > 1,
        },
        tunables={"REQUESTS": requests, "WORDS": words},
    )
