"""The registry of algorithms: the built-in ones, plug-ins, and the types of what phases hand over.

No worker is imported here: its creator hands the factories over by name.
"""

from specsim.algorithms.builtin import (
    PLUGINS,
    WITH_CHECKED_SIZES,
    Algorithm,
    SpeculativeAlgorithm,
    find_algorithm,
    target_verify_width,
)
from specsim.algorithms.drafters import DRAFTERS, WORKERS, Drafter
from specsim.algorithms.flags import Flags, Predicates
from specsim.algorithms.inputs import SpecInputType
from specsim.algorithms.own import own_drafters
from specsim.algorithms.plugin import CustomSpecAlgo, WorkerRequest
from specsim.algorithms.registry import (
    ALIAS_OF_EAGLE,
    check_registration,
    missing_predicates,
    register,
    reserved_names,
    restored_registry,
)

__all__ = [
    "ALIAS_OF_EAGLE",
    "DRAFTERS",
    "PLUGINS",
    "WITH_CHECKED_SIZES",
    "WORKERS",
    "Algorithm",
    "CustomSpecAlgo",
    "Drafter",
    "Flags",
    "Predicates",
    "SpecInputType",
    "SpeculativeAlgorithm",
    "WorkerRequest",
    "check_registration",
    "find_algorithm",
    "missing_predicates",
    "own_drafters",
    "register",
    "reserved_names",
    "restored_registry",
    "target_verify_width",
]
