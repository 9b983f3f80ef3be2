"""Pools on the GPU: moves of buffers that are not one row a slot, and of pools that have slots of their own."""

from collections.abc import Sequence

import torch

from specsim.config import INDEXER_PAGE_KEYS
from specsim.gpu.kernels import pools as kernels
from specsim.gpu.launching.blocks import ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.gpu.launching.pointers import strips_of
from specsim.gpu.launching.strips import Layout
from specsim.gpu.move import launch_move
from specsim.operations.outputs import TranslateMoveSlotsOutputs

PAIRS = 256
"""Pairs of a program: two a thread of four warps."""


def move_indexer_cache(
    indexer_buffers: Sequence[torch.Tensor], target_slots: torch.Tensor, source_slots: torch.Tensor, head_dim: int
) -> None:
    """Copy key and scale of slots in every indexer buffer, all read before any is written.

    One launch, that of ``move_kv_cache``: keys are one strip of a layer and scales another, so a program that owns a
    tile of words owns it in every slot of every page, and no other program reads or writes it.
    ``KVBuffers.of_indexer`` carry the table of addresses.
    """
    run("move_indexer_cache", launch_move_indexer_cache, locals())


def launch_move_indexer_cache(call: Call) -> None:
    """Launch into the buffers of a checked call."""
    buffers, axes = call.arguments["indexer_buffers"], call.axes
    if buffers and axes["pair"]:
        layout = Layout(head_dim=axes["head_dim"])
        launch_move(call, strips_of(buffers, layout), INDEXER_PAGE_KEYS * axes.get("page", 0))


def translate_move_slots(
    target_slots: torch.Tensor, source_slots: torch.Tensor, full_to_swa: torch.Tensor
) -> TranslateMoveSlotsOutputs[torch.Tensor]:
    """Find the pairs of a move in the window's pool; a program owns a block of pairs."""
    return run("translate_move_slots", launch_translate_move_slots, locals())


def launch_translate_move_slots(call: Call) -> TranslateMoveSlotsOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["pair"]:
        launch(
            _plan_translation(axes["pair"], axes["slot"]),
            inputs=call.contiguous("target_slots", "source_slots", "full_to_swa"),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_translation(num_pairs: int, num_slots: int) -> Plan:
    pairs = choose_block(num_pairs, PAIRS)
    return Plan(
        kernels._translate_move_slots_kernel,
        grid=(ceil_div(num_pairs, pairs),),
        sizes={"num_pairs": num_pairs, "num_slots": num_slots},
        tunables={"PAIRS": pairs},
    )
