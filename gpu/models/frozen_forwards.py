"""The forward of a draft without KV on the GPU: a launch to fold a layer of the target, and one to go on from there."""

from collections.abc import Sequence

import torch

from specsim.gpu.kernels.models import frozen_forwards as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.gpu.models.forwards import ROWS, fold_listed_keys
from specsim.operations.outputs import FrozenKvDraftForwardOutputs


def frozen_kv_draft_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    hidden_states: torch.Tensor,
    positions: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
    target_layers: torch.Tensor,
    depth: int,
) -> FrozenKvDraftForwardOutputs[torch.Tensor]:
    """Run the draft model over one new token a beam on the target's KV; a program folds a block of beams."""
    return run("frozen_kv_draft_forward", launch_frozen_kv_draft_forward, locals())


def launch_frozen_kv_draft_forward(call: Call) -> FrozenKvDraftForwardOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if not axes["token"]:
        return call.outputs
    folds = call.scratch(axes["token"], axes["layer"], dtype=torch.int64)
    for layer in range(axes["layer"]):
        fold_listed_keys(call, layer, folds)
    launch(
        _plan_advance(axes["token"], axes["layer"], axes["hidden"], axes["depth"]),
        inputs={**call.contiguous("input_ids", "hidden_states", "positions", "target_layers"), "folds": folds},
        outputs=call.returned(),
    )
    return call.outputs


@planned
def _plan_advance(num_tokens: int, num_layers: int, num_words: int, depth: int) -> Plan:
    rows = choose_block(num_tokens, ROWS, LARGEST_TILE)
    return Plan(
        kernels._advance_frozen_kernel,
        grid=(ceil_div(num_tokens, rows),),
        sizes={"num_tokens": num_tokens, "depth": depth},
        constants={"NUM_WORDS": num_words, "NUM_LAYERS": num_layers, "IS_SEED": depth == 1},
        tunables={"ROWS": rows},
    )
