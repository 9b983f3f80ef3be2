"""Pools on the GPU: moves of buffers that are not one row a slot, and of pools that have slots of their own."""

from specsim.config import INDEXER_PAGE_KEYS
from specsim.gpu.kernels import pools as kernels
from specsim.gpu.launching.blocks import ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.pointers import strips_of
from specsim.gpu.launching.strips import Layout
from specsim.gpu.move import move_strips

PAIRS = 256
"""Pairs of a program: two a thread of four warps."""


@operation
def move_indexer_cache(call: Call) -> Launch | None:
    """Copy key and scale of slots in every indexer buffer, all read before any is written.

    One launch, that of ``move_kv_cache``: keys are one strip of a layer and scales another, so a program that owns a
    tile of words owns it in every slot of every page, and no other program reads or writes it.
    ``KVBuffers.of_indexer`` carry the table of addresses.
    """
    buffers, axes = call.arguments["indexer_buffers"], call.axes
    if not buffers or not axes["pair"]:
        return None
    layout = Layout(head_dim=axes["head_dim"])
    return move_strips(call, strips_of(buffers, layout), INDEXER_PAGE_KEYS * axes.get("page", 0))


@operation
def translate_move_slots(call: Call) -> Launch | None:
    """Find the pairs of a move in the window's pool; a program owns a block of pairs."""
    num_pairs = call.axes["pair"]
    if num_pairs == 0:
        return None
    pairs = choose_block(num_pairs, PAIRS)
    return Launch(
        Plan(
            kernels._translate_move_slots_kernel,
            grid=(ceil_div(num_pairs, pairs),),
            sizes={"num_pairs": num_pairs, "num_slots": call.axes["slot"]},
            tunables={"PAIRS": pairs},
        ),
        inputs=call.contiguous("target_slots", "source_slots", "full_to_swa"),
        outputs=call.returned(),
    )
