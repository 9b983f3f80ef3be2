"""The loops of multi-layer EAGLE on the device: V1 and V2 with a draft of one small layer a step."""

from functools import partial

from specsim.gpu.worker.layers import LayeredSide
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker

gpu_multi_layer = partial(GpuWorker, make_side=LayeredSide, name="gpu-multi-layer")
"""Return the V2 worker; it takes what ``GpuWorker`` takes, and a model with ``draft_layer``."""

gpu_multi_layer_v1 = partial(GpuWorkerV1, make_side=LayeredSide, name="gpu-multi-layer-v1")
"""Return the V1 worker; it takes what ``GpuWorkerV1`` takes, and a model with ``draft_layer``."""
