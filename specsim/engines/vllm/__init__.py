"""vLLM: its rejection samplers, filters and the start of the next draft, from its Python files alone."""

from specsim.engines.interpreted import reading_once
from specsim.engines.vllm import filters, from_logits, padded, sampler
from specsim.engines.vllm.release import engine

ARRAYS = "torch"
EMPTY = False
CONTIGUOUS = True
TIES = "any"
NORMALISED = True
ZERO_PROPOSALS = False
PADDED_PROPOSALS = False
VERSION = engine().installed.version
REMARKS = (f"vllm {VERSION}",)
TABLE = (*sampler.TABLE, *from_logits.TABLE, *filters.TABLE, *padded.TABLE)
globals().update(reading_once(engine().offers(TABLE)))
