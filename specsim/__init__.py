"""specsim: the executable specification of speculative decoding.

Start with ``specsim.operations`` (what each operation takes and returns), ``specsim.reference`` (what it means),
``specsim.gpu`` (the Triton path) and ``specsim.properties`` (how the two are compared).
"""

from specsim.rejection import Reason, SpecRejection

__all__ = ["Reason", "SpecRejection"]
__version__ = "0.1.0"
