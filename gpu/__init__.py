"""The production path: torch tensors and Triton kernels. Import it as ``specsim.gpu``.

Without a GPU the kernels run under Triton's interpreter.
"""

import os

from specsim.environment import INTERPRETER
from specsim.installation import explain_missing, find_missing

if __name__ != "specsim.gpu":
    raise ImportError(f"import this package as specsim.gpu, not as {__name__}")
if find_missing("gpu"):
    raise ImportError(explain_missing("gpu", __name__))

import torch

if not torch.cuda.is_available():
    os.environ.setdefault(INTERPRETER, "1")

from specsim.gpu import exports
from specsim.gpu.exports import *  # noqa: F403
from specsim.gpu.launching.pointers import KVBuffers

ARRAYS = "torch"
HOST = "specsim.conformance.catalogue"
PARTS = "specsim.simulation.parts"
REJECTS = True
WORKER = "specsim.gpu.worker.v2.GpuWorker"
WORKER_V1 = "specsim.gpu.worker.v1.GpuWorkerV1"
WORKERS = {
    "eagle_v1": WORKER_V1,
    "eagle_v2": WORKER,
    "standalone_v1": WORKER_V1,
    "standalone_v2": WORKER,
    **{
        name: f"specsim.gpu.worker.by_name.{name}"
        for name in (
            "dflash",
            "dflash_v2",
            "frozen_kv_mtp",
            "frozen_kv_mtp_v2",
            "multi_layer_eagle_v1",
            "multi_layer_eagle_v2",
            "ngram",
            "ngram_v2",
        )
    },
}

__all__ = ["ARRAYS", "HOST", "PARTS", "REJECTS", "WORKER", "WORKERS", "WORKER_V1", "KVBuffers"]
__all__ += exports.__all__
