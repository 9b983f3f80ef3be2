"""The production path: torch tensors and Triton kernels. Import it as ``specsim.gpu``.

Without a GPU the kernels run under Triton's interpreter.
"""

import os
from functools import partial

from specsim.algorithms import WORKERS as ALL_WORKERS
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
from specsim.simulation.loops import make_worker

ARRAYS = "torch"
HOST = "specsim.conformance.catalogue"
PARTS = "specsim.simulation.parts"
REJECTS = True
WORKER = "specsim.gpu.worker.v2.GpuWorker"
WORKER_V1 = "specsim.gpu.worker.v1.GpuWorkerV1"
WORKERS = {name: partial(make_worker, name, "gpu") for name in ALL_WORKERS}

__all__ = ["ARRAYS", "HOST", "PARTS", "REJECTS", "WORKER", "WORKERS", "WORKER_V1", "KVBuffers"]
__all__ += exports.__all__
