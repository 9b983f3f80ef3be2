"""The loops on the device by the names that algorithms give their workers: each with its draft side and its name."""

from functools import partial

from specsim.gpu.worker.sides.dflash import DflashSide
from specsim.gpu.worker.sides.frozen_kv_mtp import FrozenSide
from specsim.gpu.worker.sides.layered import LayeredSide
from specsim.gpu.worker.sides.ngram import NgramSide
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker

dflash = partial(GpuWorkerV1, make_side=DflashSide, name="gpu-dflash")
dflash_v2 = partial(GpuWorker, make_side=DflashSide, name="gpu-dflash-v2")
frozen_kv_mtp = partial(GpuWorkerV1, make_side=FrozenSide, name="gpu-frozen-kv-mtp")
frozen_kv_mtp_v2 = partial(GpuWorker, make_side=FrozenSide, name="gpu-frozen-kv-mtp-v2")
multi_layer_eagle_v1 = partial(GpuWorkerV1, make_side=LayeredSide, name="gpu-multi-layer-v1")
multi_layer_eagle_v2 = partial(GpuWorker, make_side=LayeredSide, name="gpu-multi-layer")
ngram = partial(GpuWorkerV1, make_side=NgramSide, name="gpu-ngram")
ngram_v2 = partial(GpuWorker, make_side=NgramSide, name="gpu-ngram-v2")
