"""Find arithmetic that makes tokens of drafts, drafts of tokens, or nodes of drafts: what ``specsim.counts`` is for."""

import ast
import re

DRAFTS_OR_TOKENS = re.compile(r"(^|_)(drafts|tokens|candidates|nodes|path|accepted|path_width|bonus)$|accept")
STEPS = re.compile(r"(^|_)steps$")
VERIFIES = re.compile(r"(^|_)(verifies|requests)$")
UNIT = re.compile(r"^(BONUS|ROOT)")
TRANSPARENT = {"len", "sum", "int", "max", "min", "abs", "round", "float"}
ADDITIONS = {"add", "add_", "sub", "sub_", "subtract"}


def name_of(node):
    """Return the last name of an operand, seen through indices, conversions and sums; "" if it has none."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Subscript(value=value) | ast.UnaryOp(operand=value) | ast.Starred(value=value):
            return name_of(value)
        case ast.Call(func=ast.Name(id=name), args=[argument, *_]) if name in TRANSPARENT:
            return name_of(argument)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if not DRAFTS_OR_TOKENS.search(name):
            return name_of(value)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
        case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element):
            return name_of(element)
    return ""


def is_unit(node):
    """Return whether a term is 1, or a multiple of a named bonus or root."""
    match node:
        case ast.Constant(value=value):
            return not isinstance(value, bool) and value == 1
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return any(UNIT.match(name_of(side)) for side in (left, right))
    return UNIT.match(name_of(node)) is not None


def terms_of(node, sign=1):
    """Return the signed terms of a sum."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            return terms_of(left, sign) + terms_of(right, sign if isinstance(op, ast.Add) else -sign)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return terms_of(operand, -sign)
    return [(sign, node)]


def is_counted_by_hand(terms):
    """Return whether a sum turns one count into another."""
    names = [(sign, name_of(node)) for sign, node in terms]
    signs_of_units = [sign for sign, node in terms if is_unit(node)]
    if any(DRAFTS_OR_TOKENS.search(name) for _, name in names):
        return bool(signs_of_units) or any(VERIFIES.search(name) for _, name in names)
    return any(STEPS.search(name) and sign in signs_of_units for sign, name in names)


def find_arithmetic(source):
    """Return (line, text) of every sum that ``specsim.counts`` should have made, in order.

    A step is counted with its root (``num_steps + 1``, the width of a path); ``num_steps - 1`` is another thing, the
    steps after the first, and is left alone. So are products and bounds (``request * num_nodes - 1``): a term counts
    only if it is a name, an entry, a length or a sum of one.
    """
    tree = ast.parse(source)
    within = {id(side) for node in ast.walk(tree) if is_sum(node) for side in (node.left, node.right) if is_sum(side)}
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.BinOp() if is_sum(node) and id(node) not in within:
                terms = terms_of(node)
            case ast.AugAssign(target=target, op=ast.Add() | ast.Sub(), value=value):
                terms = [*terms_of(target), *terms_of(value)]
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=args) if name in ADDITIONS:
                terms = [*terms_of(value), *(term for argument in args for term in terms_of(argument))]
            case _:
                continue
        if is_counted_by_hand(terms):
            found.append((node.lineno, ast.unparse(node)))
    return sorted(found)


def is_sum(node):
    """Return whether a node adds or subtracts."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)
