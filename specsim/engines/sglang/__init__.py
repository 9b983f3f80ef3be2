"""SGLang: Triton kernels and Python functions of speculative decoding, from its Python files alone."""

from specsim.engines.sglang import acceptance, compact, dflash, draft, draft_cache, slots, tree, verify
from specsim.engines.sglang.calls import CALLS as CALLS
from specsim.engines.sglang.release import engine, largest_tree

VERSION = engine().installed.version
ARRAYS = "torch"
EMPTY = False
CONTIGUOUS = True
TIES = "any"
NORMALISED = True
LIMITS = {
    "move_kv_cache": {"buffer": (1, 64)},
    "assign_draft_cache_locs": {"page_size": (1,), "num_copies": (0,)},
    "build_tree": {"mask_mode": (0, 1), "node": (1, largest_tree())},
}
TABLE = tuple(
    row for module in (draft, draft_cache, tree, dflash, verify, acceptance, compact, slots) for row in module.TABLE
)
globals().update(engine().offers(TABLE))
