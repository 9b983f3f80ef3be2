"""SGLang: the filters of its sampler in plain torch, which stand beside the kernels of ``specsim.engines.sglang``."""

from specsim.engines.sglang.release import engine
from specsim.engines.sglang_torch import filters

VERSION = engine().installed.version
REMARKS = (f"sglang {VERSION}",)
ARRAYS = "torch"
EMPTY = False
CONTIGUOUS = True
TIES = "any"
NORMALISED = True
TABLE = filters.TABLE
globals().update(engine().offers(TABLE))
