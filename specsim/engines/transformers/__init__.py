"""Transformers: the acceptance rule of assisted generation, from its Python files alone."""

from specsim.engines.transformers import assisted
from specsim.engines.transformers.release import engine

ARRAYS = "torch"
EMPTY = False
CONTIGUOUS = True
NORMALISED = True
ZERO_PROPOSALS = False
VERSION = engine().installed.version
REMARKS = (f"transformers {VERSION}",)
TABLE = assisted.TABLE
globals().update(engine().offers(TABLE))
