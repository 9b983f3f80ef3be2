"""How large cases are drawn: smaller where an interpreter runs each program of a kernel for milliseconds."""

from contextlib import AbstractContextManager
from contextvars import ContextVar

from specsim.properties.inside import having

_IS_INTERPRETED: ContextVar[bool] = ContextVar("interpreted", default=False)


def drawing_for_interpreter(is_interpreted: bool = True) -> AbstractContextManager[bool]:
    """Let strategies know, inside, whether what they draw is for interpreted kernels."""
    return having(_IS_INTERPRETED, is_interpreted)


def draws_for_interpreter() -> bool:
    """Return whether what is drawn is for interpreted kernels."""
    return _IS_INTERPRETED.get()
