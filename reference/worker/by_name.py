"""The loops of the reference by the names that algorithms give their workers; none is imported before it is asked for.

They are no workers of an implementation: each runs on the operations that it is given, an implementation's in
particular.
"""

from collections.abc import Callable
from typing import Any

from specsim.conformance.raised import Undefined
from specsim.discovery import import_class

_HOME = "specsim.reference.worker"
_V1, _V2 = f"{_HOME}.v1.ReferenceWorkerV1", f"{_HOME}.v2.ReferenceWorker"

WORKERS = {
    "dflash": f"{_HOME}.dflash.ReferenceDflashWorker",
    "dflash_v2": f"{_HOME}.dflash_v2.ReferenceDflashWorkerV2",
    "eagle_v1": _V1,
    "eagle_v2": _V2,
    "frozen_kv_mtp": f"{_HOME}.frozen_kv_mtp.reference_frozen_kv_mtp",
    "multi_layer_eagle_v1": f"{_HOME}.multi_layer.reference_multi_layer_v1",
    "multi_layer_eagle_v2": f"{_HOME}.multi_layer.reference_multi_layer",
    "frozen_kv_mtp_v2": f"{_HOME}.frozen_kv_mtp.reference_frozen_kv_mtp_v2",
    "ngram": f"{_HOME}.ngram.ReferenceNgramWorker",
    "ngram_v2": f"{_HOME}.ngram_v2.ReferenceNgramWorkerV2",
    "standalone_v1": _V1,
    "standalone_v2": _V2,
}
"""The class of each worker."""


def loop_of(name: str) -> Callable[..., Any]:
    """Return the class of a worker.

    Raises
    ------
    Undefined
        The reference lacks it.
    """
    if name not in WORKERS:
        raise Undefined(f"specsim.reference has no worker {name}; it has {', '.join(sorted(WORKERS))}")
    return import_class(WORKERS[name])
