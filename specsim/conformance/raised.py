"""What an implementation raises, as an error that says no more to a suite than that the call has failed.

A suite and the libraries that it runs on give some exceptions a meaning of their own: a case that is left out, a test
that is skipped, an operation that is not defined. Raised by what is tried they mean nothing of the kind.
"""

import builtins

from specsim.rejection import SpecRejection

FAMILIES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    ReferenceError,
    RuntimeError,
    SyntaxError,
    SystemError,
    TypeError,
    ValueError,
)

PLAIN = frozenset(
    {Exception, SpecRejection}
    | {one for one in vars(builtins).values() if isinstance(one, type) and issubclass(one, FAMILIES)}
)
"""Classes that mean a failure, or a rejection, to everybody; a subclass may mean something else."""


class Undefined(NotImplementedError):
    """An implementation does not define what is asked for."""


def as_failure(error: BaseException, name: str) -> Exception:
    """Return the error that stands for one that a function has raised: itself, or one of a plain class that names it.

    Parameters
    ----------
    name : str
        The function.
    """
    if type(error) in PLAIN and isinstance(error, Exception):
        return error
    if isinstance(error, SystemExit):
        return RuntimeError(f"{name} exits with {error.code}")
    try:
        message = f"{error}"
    except Exception:  # NOTE: a class of its own may fail here as well.
        message = ""
    family = next((one for one in type(error).__mro__ if one in FAMILIES), RuntimeError)
    return family(f"{name} raises {type(error).__name__}{': ' if message else ''}{message}")
