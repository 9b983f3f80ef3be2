"""SGLang: Triton kernels and Python functions of speculative decoding, and on a GPU the compiled kernels that it runs.

Without a GPU its Python files are all that it takes.
"""

from specsim.engines.interpreted import reading_once
from specsim.engines.sglang import (
    acceptance,
    compact,
    dflash,
    draft,
    draft_cache,
    extend,
    grammar,
    sampling,
    scheduled,
    slots,
    tree,
    verify,
)
from specsim.engines.sglang.calls import CALLS as CALLS
from specsim.engines.sglang.compiled import remarks
from specsim.engines.sglang.release import engine

VERSION = engine().installed.version
REMARKS = (f"sglang {VERSION}", *remarks())
ARRAYS = "torch"
EMPTY = False
CONTIGUOUS = True
TIES = "any"
NORMALISED = True
DISTINCT_SIBLINGS = bool(sampling.TABLE)
LIMITS = {
    "move_kv_cache": {"buffer": (1, 64)},
    "assign_draft_cache_locs": {"page_size": (1,), "num_copies": (0,)},
    "build_tree": tree.limits(),
    "tree_speculative_sampling_target_only": sampling.limits(),
    **scheduled.LIMITS,
}
TABLE = tuple(
    row
    for module in (
        draft,
        draft_cache,
        tree,
        dflash,
        verify,
        grammar,
        sampling,
        acceptance,
        compact,
        slots,
        extend,
        scheduled,
    )
    for row in module.TABLE
)
globals().update(reading_once(engine().offers(TABLE)))
