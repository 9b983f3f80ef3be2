"""The forward of a draft without KV on the GPU: a launch to fold a layer of the target, and one to go on from there."""

import torch

from specsim.gpu.kernels.models import frozen_forwards as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan
from specsim.gpu.models.forwards import ROWS, fold_listed_keys


@operation
def frozen_kv_draft_forward(call: Call) -> list[Launch]:
    """Run the draft model over one new token a beam on the target's KV; a program folds a block of beams."""
    num_tokens, num_layers, depth = (call.axes[name] for name in ("token", "layer", "depth"))
    if num_tokens == 0:
        return []
    folds = call.scratch(num_tokens, num_layers, dtype=torch.int64)
    rows = choose_block(num_tokens, ROWS, LARGEST_TILE)
    advance = Plan(
        kernels._advance_frozen_kernel,
        grid=(ceil_div(num_tokens, rows),),
        sizes={"num_tokens": num_tokens, "depth": depth},
        constants={"NUM_WORDS": call.axes["hidden"], "NUM_LAYERS": num_layers, "IS_SEED": depth == 1},
        tunables={"ROWS": rows},
    )
    inputs = {**call.contiguous("input_ids", "hidden_states", "positions", "target_layers"), "folds": folds}
    return [
        *(fold_listed_keys(call, layer, folds) for layer in range(num_layers)),
        Launch(advance, inputs, call.returned()),
    ]
