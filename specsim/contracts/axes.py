"""Symbolic axes with arithmetic: ``draft+1``, ``request*node``, ``1 if step_index == 0 else topk``.

A contract names its axes once; a call binds them to sizes. An expression is a subset of Python: names, integers,
strings, ``+ - * // %``, comparisons, ``and``, ``or`` and ``if``-``else``.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class UnboundAxis(KeyError):
    """An expression uses a name that the call has not bound."""


@lru_cache(maxsize=1024)
def _parse(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


@lru_cache(maxsize=1024)
def names_of(expression: str) -> frozenset[str]:
    """Return the names that an expression uses."""
    return frozenset(node.id for node in ast.walk(_parse(expression)) if isinstance(node, ast.Name))


def evaluate(expression: str, bindings: Mapping[str, Any]) -> Any:
    """Return the value of an expression under the bindings.

    Raises
    ------
    UnboundAxis
        The expression uses a name that is not bound.
    """
    return _evaluate(_parse(expression), bindings)


def _evaluate(node: ast.expr, bindings: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            if name not in bindings:
                raise UnboundAxis(name)
            return bindings[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_evaluate(left, bindings), _evaluate(right, bindings))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, bindings)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _evaluate(body if _evaluate(test, bindings) else orelse, bindings)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_evaluate(value, bindings) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_evaluate(value, bindings) for value in values)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = [_evaluate(side, bindings) for side in (left, *comparators)]
            return all(_COMPARE[type(op)](sides[i], sides[i + 1]) for i, op in enumerate(ops))
    raise SyntaxError(f"an axis expression may not contain {ast.dump(node)}")


def solve(expression: str, size: int, bindings: Mapping[str, Any]) -> tuple[str, int] | None:
    """Find the one name that is missing for ``expression == size``, if the expression is linear in it.

    Returns
    -------
    solution : (name, value) or None
        None when nothing is missing, more than one name is, or the missing name does not matter.

    Raises
    ------
    ArithmeticError
        No whole number makes the expression equal to the size.
    """
    missing = [name for name in names_of(expression) if name not in bindings]
    if len(missing) != 1:
        return None
    name = missing[0]
    trial = dict(bindings)
    trial[name] = 0
    at_zero = evaluate(expression, trial)
    trial[name] = 1
    slope = evaluate(expression, trial) - at_zero
    if slope == 0:
        return None
    value, remainder = divmod(size - at_zero, slope)
    if remainder or value < 0:
        raise ArithmeticError(f"{size} is not of the form {expression}")
    return name, value
