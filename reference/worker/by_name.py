"""The loops of the reference by the names that algorithms give their workers; none is imported before it is asked for.

They are no workers of an implementation: each runs on the operations that it is given, an implementation's in
particular.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from specsim.conformance.raised import Undefined
from specsim.discovery import import_class

_HOME = "specsim.reference.worker"

LOOPS = {"v1": f"{_HOME}.v1.ReferenceWorkerV1", "v2": f"{_HOME}.v2.ReferenceWorker"}
"""The class of each loop."""

SIDES = {
    name: f"{_HOME}.sides.{side}"
    for name, side in {
        "dflash": "dflash.DflashSide",
        "eagle": "stepwise.StepwiseSide",
        "frozen_kv_mtp": "frozen_kv_mtp.FrozenSide",
        "multi_layer_eagle": "layered.LayeredSide",
        "ngram": "ngram.NgramSide",
        "standalone": "stepwise.StepwiseSide",
    }.items()
}
"""The draft side of each algorithm."""

WORKERS = {
    "dflash": ("dflash", "v1", "reference-dflash"),
    "dflash_v2": ("dflash", "v2", "reference-dflash-v2"),
    "eagle_v1": ("eagle", "v1", "reference-v1"),
    "eagle_v2": ("eagle", "v2", "reference"),
    "frozen_kv_mtp": ("frozen_kv_mtp", "v1", "reference-frozen-kv-mtp"),
    "frozen_kv_mtp_v2": ("frozen_kv_mtp", "v2", "reference-frozen-kv-mtp-v2"),
    "multi_layer_eagle_v1": ("multi_layer_eagle", "v1", "reference-multi-layer-v1"),
    "multi_layer_eagle_v2": ("multi_layer_eagle", "v2", "reference-multi-layer"),
    "ngram": ("ngram", "v1", "reference-ngram"),
    "ngram_v2": ("ngram", "v2", "reference-ngram-v2"),
    "standalone_v1": ("standalone", "v1", "reference-v1"),
    "standalone_v2": ("standalone", "v2", "reference"),
}
"""The side, the loop and the reported name of each worker."""


@cache
def loop_of(name: str) -> Callable[..., Any]:
    """Return what makes a worker: its loop, with its side.

    Raises
    ------
    Undefined
        The reference lacks it.
    """
    if name not in WORKERS:
        raise Undefined(f"specsim.reference has no worker {name}; it has {', '.join(sorted(WORKERS))}")
    side, loop, reported = WORKERS[name]
    return partial(import_class(LOOPS[loop]), make_side=import_class(SIDES[side]), name=reported)
