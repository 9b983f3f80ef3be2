"""vLLM: the Triton kernels of its rejection sampler, from its Python files alone."""

from specsim.engines.interpreted import reading_once
from specsim.engines.vllm import sampler
from specsim.engines.vllm.release import engine

ARRAYS = "torch"
EMPTY = False
CONTIGUOUS = True
NORMALISED = True
ZERO_PROPOSALS = False
PADDED_PROPOSALS = False
VERSION = engine().installed.version
REMARKS = (f"vllm {VERSION}",)
TABLE = sampler.TABLE
globals().update(reading_once(engine().offers(TABLE)))
