"""The loops of FROZEN_KV_MTP in NumPy: V1 and V2 with a draft that reads the target's KV, has none, and never extends.

Nothing of the draft has a slot: V1 borrows none, and V2 allocates ahead for the verify alone.
"""

from functools import partial

from specsim.reference.worker.frozen_side import FrozenSide
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker

reference_frozen_kv_mtp = partial(ReferenceWorkerV1, make_side=FrozenSide.of, name="reference-frozen-kv-mtp")
"""Return the V1 worker; it takes what ``ReferenceWorkerV1`` takes, and a model with ``draft_frozen``."""

reference_frozen_kv_mtp_v2 = partial(ReferenceWorker, make_side=FrozenSide.of, name="reference-frozen-kv-mtp-v2")
"""Return the V2 worker; it takes what ``ReferenceWorker`` takes, and a model with ``draft_frozen``."""
