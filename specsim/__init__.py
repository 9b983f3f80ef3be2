"""specsim: the executable specification of speculative decoding.

Start with ``specsim.operations`` (what each operation takes and returns), ``specsim.reference`` (what it means),
``specsim.gpu`` (the Triton path) and ``specsim.properties`` (how the two are compared). ``specsim.load`` makes one of
them, or a module of yours, callable on NumPy arrays. ``specsim.record`` keeps a sample of the calls of an engine that
runs.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from specsim.conformance.backend import load
    from specsim.conformance.recording.session import record
    from specsim.rejection import Reason, SpecRejection

__all__ = ["Reason", "SpecRejection", "load", "record"]
__version__ = "0.1.0"

_LAZY = {
    "load": "specsim.conformance.backend",
    "record": "specsim.conformance.recording.session",
    "Reason": "specsim.rejection",
    "SpecRejection": "specsim.rejection",
}
"""Where the names stand, which are imported when they are first asked for.

NumPy comes with some of them; and ``python -m specsim`` has to set right where modules are found before anything else.
"""


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return vars(import_module(_LAZY[name]))[name]
