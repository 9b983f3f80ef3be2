"""FlashInfer: its kernels of renormalisation and of chains, which are compiled and take a GPU."""

from specsim.engines.flashinfer import sampler
from specsim.engines.flashinfer.release import HOMES, compiled, version

VERSION = version()
REMARKS = (f"flashinfer {VERSION}", *(f"{name}: {compiled(name).in_words('missing')}" for name in HOMES))
ARRAYS = "torch"
EMPTY = False
CONTIGUOUS = True
TIES = "any"
NORMALISED = True
ZERO_PROPOSALS = False
PADDED_PROPOSALS = False
TABLE = sampler.TABLE
globals().update({row.name: row.function for row in TABLE if compiled(row.name).function is not None})
