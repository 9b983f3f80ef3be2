"""How large cases are drawn: smaller where an interpreter runs each program of a kernel for milliseconds."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_IS_INTERPRETED: ContextVar[bool] = ContextVar("interpreted", default=False)


@contextmanager
def drawing_for_interpreter(is_interpreted: bool = True) -> Iterator[None]:
    """Let strategies know, inside, whether what they draw is for interpreted kernels."""
    token = _IS_INTERPRETED.set(is_interpreted)
    try:
        yield
    finally:
        _IS_INTERPRETED.reset(token)


def draws_for_interpreter() -> bool:
    """Return whether what is drawn is for interpreted kernels."""
    return _IS_INTERPRETED.get()
