"""The loops of multi-layer EAGLE in NumPy: V1 and V2 with a draft of one small layer a step."""

from functools import partial

from specsim.reference.worker.layers import LayeredSide
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker

reference_multi_layer = partial(ReferenceWorker, make_side=LayeredSide, name="reference-multi-layer")
"""Return the V2 worker; it takes what ``ReferenceWorker`` takes, and a model with ``draft_layer``."""

reference_multi_layer_v1 = partial(ReferenceWorkerV1, make_side=LayeredSide, name="reference-multi-layer-v1")
"""Return the V1 worker; it takes what ``ReferenceWorkerV1`` takes, and a model with ``draft_layer``."""
