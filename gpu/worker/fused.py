"""What a worker launches in the place of several operations one after another, which it returns the same as."""

from typing import Any

from torch import Tensor

from specsim.contracts.contract import Contract, Defined, Unit, array
from specsim.gpu.kernels import worker as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import fused
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.pointers import words_of
from specsim.operations.shared import ACCEPT_INDEX, NUM_ACCEPTED_DRAFTS, OUT_CACHE_LOC, PREDICT, REQ_POOL_INDICES

WORDS = 512
"""Words of a field that a program copies at a time: four a thread of four warps."""

PLACES = 128
"""Places of paths of a program: one a thread of four warps."""

_OPAQUE = Defined("length", "0")
_FIELDS = array("fields", "any [row, ...]", Unit.ANY, each="field", defined=_OPAQUE)
_ENTRIES = array("entries", "like fields [request, ...]", Unit.ANY, each="field", defined=_OPAQUE)


@fused(Contract((REQ_POOL_INDICES, _FIELDS, _ENTRIES), writes=("entries",)), "semantics J.2")
def gather_rows(call: Call) -> Launch | None:
    """Read the rows of a batch, of every field that waits by row; one launch over requests and words."""
    return _copy_rows(call, gathers=True)


@fused(Contract((REQ_POOL_INDICES, _FIELDS, _ENTRIES), writes=("fields",)), "semantics J.2")
def scatter_rows(call: Call) -> Launch | None:
    """Write the rows of a batch, of every field that waits by row, but row 0, which pads batches; one launch."""
    return _copy_rows(call, gathers=False)


def _copy_rows(call: Call, gathers: bool) -> Launch | None:
    axes, given = call.axes, call.arguments
    pairs = [
        _alike(field, entry) for field, entry in zip(given["fields"], given["entries"], strict=True) if entry.numel()
    ]
    if not pairs:
        return None
    widths = tuple(field.shape[1] for field, _ in pairs)
    words = choose_block(max(widths), WORDS, LARGEST_TILE)
    requests = choose_block(axes["request"], max(1, WORDS // words), max(1, LARGEST_TILE // words))
    copied: dict[str, Any] = {"field": tuple(one for one, _ in pairs), "entry": tuple(one for _, one in pairs)}
    read, written = ("field", "entry") if gathers else ("entry", "field")
    return Launch(
        Plan(
            kernels._copy_rows_kernel,
            grid=(ceil_div(axes["request"], requests), ceil_div(max(widths), words)),
            sizes={"widths": widths, "num_requests": axes["request"], "num_rows": axes["row"]},
            constants={"NUM_FIELDS": len(pairs), "GATHERS": gathers},
            tunables={"REQUESTS": requests, "WORDS": words},
        ),
        inputs={read: copied[read], **call.contiguous("req_pool_indices")},
        outputs={written: copied[written]},
    )


def _alike(field: Tensor, entry: Tensor) -> tuple[Tensor, Tensor]:
    """View rows of a field, and what is copied from or to them, as words of one width."""
    pair = words_of(field), words_of(entry.contiguous())
    word = min(pair[0].dtype, pair[1].dtype, key=lambda one: one.itemsize)
    return pair[0].view(word), pair[1].view(word)


@fused(
    Contract(
        (PREDICT, ACCEPT_INDEX, NUM_ACCEPTED_DRAFTS, OUT_CACHE_LOC),
        outputs=(
            array("num_accepted_tokens", "int32 [request]", Unit.COUNT),
            array("bonus_tokens", "int32 [request]", Unit.TOKEN),
            array("source_slots", "int64 [request*(draft+1)]", Unit.SLOT),
            array("target_slots", "int64 [request*(draft+1)]", Unit.SLOT),
        ),
    ),
    "semantics 0.5, C.3, C.4",
)
def finish_paths(call: Call) -> Launch | None:
    """Count the tokens of accepted paths, pick their last ones, and list where their KV is and where it goes.

    One launch for ``gather_accept_tokens``, ``fill_bonus_tokens``, ``fill_accept_out_cache_loc`` and
    ``fill_accept_target_cache_loc``; a program owns a block of requests and counts what those before it accept.
    """
    axes = call.axes
    if axes["request"] == 0:
        return None
    places = power_of_two(axes["draft"] + 1)
    requests = choose_block(axes["request"], max(1, PLACES // places), LARGEST_TILE // places)
    return Launch(
        Plan(
            kernels._finish_paths_kernel,
            grid=(ceil_div(axes["request"], requests),),
            sizes={"num_requests": axes["request"], "num_nodes": axes["node"], "width": axes["draft"] + 1},
            constants={"PLACES": places},
            tunables={"REQUESTS": requests},
        ),
        inputs=call.contiguous("predict", "accept_index", "num_accepted_drafts", "out_cache_loc"),
        outputs=call.returned(),
    )
