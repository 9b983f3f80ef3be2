"""The loops of FROZEN_KV_MTP on the device: V1 and V2 with a draft that reads the target's KV and has none."""

from functools import partial

from specsim.gpu.worker.frozen_side import FrozenSide
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker

gpu_frozen_kv_mtp = partial(GpuWorkerV1, make_side=FrozenSide.of, name="gpu-frozen-kv-mtp")
"""Return the V1 worker; it takes what ``GpuWorkerV1`` takes, and a model with ``draft_frozen``."""

gpu_frozen_kv_mtp_v2 = partial(GpuWorker, make_side=FrozenSide.of, name="gpu-frozen-kv-mtp-v2")
"""Return the V2 worker; it takes what ``GpuWorker`` takes, and a model with ``draft_frozen``."""
