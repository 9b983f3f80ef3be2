"""Transformers: the acceptance rule of assisted generation and filters of logits, from its Python files alone."""

from specsim.engines.transformers import assisted, filters
from specsim.engines.transformers.release import engine

ARRAYS = "torch"
EMPTY = False
CONTIGUOUS = True
TIES = "any"
NORMALISED = True
ZERO_PROPOSALS = False
VERSION = engine().installed.version
REMARKS = (f"transformers {VERSION}",)
TABLE = (*assisted.TABLE, *filters.TABLE)
globals().update(engine().offers(TABLE))
