"""Python that is written at run time and compiled: what contracts and expressions become, and heads of operations."""

from types import CodeType
from typing import Any


def code_of(text: str, label: str, mode: str) -> CodeType:
    """Compile generated source; here alone, so that there is one place to look for what is carried out of it."""
    return compile(text, f"<{label}>", mode)


def define(text: str, name: str, scope: dict[str, Any], label: str) -> Any:
    """Return what generated source defines under a name."""
    exec(code_of(text, label, "exec"), scope)
    return scope[name]
