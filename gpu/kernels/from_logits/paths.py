"""The outputs of a walk before it starts, shared by all walks over raw logits."""

import triton
import triton.language as tl


@triton.jit
def begin_path(predict_ptr, path_ptr, root, num_nodes, num_steps, NODES: tl.constexpr, STEPS: tl.constexpr):
    """Write no token at every node of a request, and a path of its root alone, of which the index is given."""
    node = tl.arange(0, NODES)
    tl.store(predict_ptr + node, 0, mask=node < num_nodes)
    step = tl.arange(0, STEPS)
    tl.store(path_ptr + step, tl.where(step == 0, root, -1), mask=step <= num_steps)
