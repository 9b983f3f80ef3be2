"""Symbolic axes with arithmetic: ``draft+1``, ``request*node``, ``1 if step_index == 0 else topk``.

A contract names its axes once; a call binds them to sizes. An expression is a subset of Python: names, integers,
strings, ``+ - * // % **``, comparisons, ``and``, ``or`` and ``if``-``else``. It is compiled, never interpreted.
"""

import ast
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from specsim.contracts.written import code_of

_ALLOWED = (
    ast.Expression,
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Mod,
    ast.Pow,
    ast.UnaryOp,
    ast.USub,
    ast.IfExp,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.Compare,
    ast.Eq,
    ast.NotEq,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
)


class UnboundAxis(KeyError):
    """An expression uses a name that the call has not bound."""


@lru_cache(maxsize=1024)
def names_of(expression: str) -> frozenset[str]:
    """Return the names that an expression uses."""
    return frozenset(node.id for node in ast.walk(_parse(expression)) if isinstance(node, ast.Name))


@lru_cache(maxsize=1024)
def divisors_of(expression: str) -> frozenset[str]:
    """Return the names that an expression divides by, or takes remainders of."""
    divisions = [
        node.right
        for node in ast.walk(_parse(expression))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod)
    ]
    return frozenset(node.id for right in divisions for node in ast.walk(right) if isinstance(node, ast.Name))


def evaluate(expression: str, bindings: Mapping[str, Any]) -> Any:
    """Return the value of an expression under the bindings; of a condition only the branch that is taken counts.

    Raises
    ------
    UnboundAxis
        The expression uses a name that is not bound.
    """
    try:
        # NOTE: the expression is of the subset above and sees no builtins, so it can only compute.
        return eval(_compiled(expression), {"__builtins__": {}}, bindings)
    except NameError as unbound:
        raise UnboundAxis(unbound.name) from None


def spelt(expression: str, instead: Mapping[str, str | int]) -> str:
    """Return the expression as Python source, some names replaced by other names or by numbers."""
    return ast.unparse(_Renaming(instead).visit(_parse(expression)))


class _Renaming(ast.NodeTransformer):
    def __init__(self, instead: Mapping[str, str | int]) -> None:
        self._instead = instead

    def visit_Name(self, node: ast.Name) -> ast.expr:
        other = self._instead.get(node.id, node.id)
        return ast.Name(other, ast.Load()) if isinstance(other, str) else ast.Constant(other)


def _parse(expression: str) -> ast.Expression:
    tree = ast.parse(expression, mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise SyntaxError(f"an axis expression may not contain {ast.dump(node)}")
    return tree


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> CodeType:
    return code_of(spelt(expression, {}), expression, "eval")
