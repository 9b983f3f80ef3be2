"""Tokens are made of drafts in ``specsim/counts.py`` alone: a scan of every source that takes part in a decode."""

import ast
import re
from pathlib import Path

import pytest

DRAFTS_OR_TOKENS = re.compile(r"(^|_)(drafts|tokens|candidates|nodes|path|accepted|path_width|bonus)$|accept")
STEPS = re.compile(r"(^|_)steps$")
VERIFIES = re.compile(r"(^|_)(verifies|requests)$")
UNIT = re.compile(r"^(BONUS|ROOT)")
TRANSPARENT = {"len", "sum", "int", "max", "min", "abs", "round", "float"}
ADDITIONS = {"add", "add_", "sub", "sub_", "subtract"}

ROOT = Path(__file__).parents[2]
HOME = "specsim/counts.py"
FOLDERS = ("specsim", "reference", "gpu", "properties")

OUTSIDE = {
    "gpu/kernels/": "a kernel cannot call the host; its columns are those of the contract (`draft+1`), and what it "
    "writes is compared entry by entry with the reference, which is scanned",
    "properties/laws/": "a law says what is right without the code that it judges",
    "properties/strategies/": "a strategy draws the bounds of its arguments without the code that is judged on them",
    "properties/mutants/": "a mutant is wrong on purpose",
}
"""Folders that are not scanned, and why."""

ALLOWED = {
    (
        "reference/extend.py",
        "request * num_draft_tokens + num_accepted_tokens[request] - 1",
    ): "the last accepted row of a request: the place of an entry, not a count",
    ("reference/verify.py", "num_accepted_drafts[request] += 1"): "the walk counts drafts, one as it accepts one; no "
    "token comes out of it",
    ("gpu/acceptance.py", "num_nodes + 1"): "a column for each node's coin, and one for the final coin",
}
"""Sums that stay, and why; each is there as it is written here."""

PLANTED = {
    "num_accepted_drafts + 1": True,
    "1 + num_accepted_drafts": True,
    "num_tokens - 1": True,
    "stats.num_accepted_tokens - 1": True,
    "num_accepted_drafts[request] + 1": True,
    "counters['num_accepted_drafts'] + 1": True,
    "num_accepted_drafts.long() + 1": True,
    "int(num_accepted_drafts.sum()) + 1": True,
    "base + num_accepted_drafts + 1": True,
    "len(path) - 1": True,
    "sum(len(tokens) for tokens in runs) - 1": True,
    "num_steps + 1": True,
    "path_width(num_steps) - 1": True,
    "config.path_width - 1": True,
    "count_tokens(drafts) - 1": True,
    "num_draft_tokens - 1": True,
    "num_accepted_drafts + BONUS_TOKENS_PER_VERIFY": True,
    "num_accepted_tokens - num_verifies * BONUS_TOKENS_PER_VERIFY": True,
    "num_accepted_drafts + num_verifies": True,
    "num_accepted_tokens - num_verifies": True,
    "num_accepted_drafts + num_requests": True,
    "num_accepted_drafts.add_(1)": True,
    "np.add(num_accepted_drafts, 1)": True,
    "accept_tokens[num_accepted_tokens[request] + 1]": True,
    "accept_tokens[num_accepted_tokens[request] - 1]": False,
    "accept_tokens[request, num_accepted_tokens[request] - 1]": False,
    "accept_index.gather(1, (num_accepted_tokens.long() - 1)[:, None])": False,
    "range(num_nodes - 1, 0, -1)": False,
    "np.arange(1, num_nodes + 1)": False,
    "np.arange(num_nodes + 1)": True,
    "np.zeros(num_steps + 1)": True,
    "num_steps - 1": False,
    "request * num_nodes - 1": False,
    "seq_lens + num_accepted_tokens": False,
    "num_accepted_drafts + other_drafts": False,
    "count_tokens(num_accepted_drafts)": False,
    "num_batches + 1": False,
    "step + 1": False,
}


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


def places_of(node):
    """Return the sums within a node that say where something stands, not how many there are.

    That is an index of the last of so many entries, a gathering by it, and the ends of a range of numbers from 1.
    """
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=places)):
            pass
        case ast.Subscript(slice=place) | ast.Call(func=ast.Name(id="range"), args=[place, _, _]):
            places = [place]
        case ast.Call(func=ast.Attribute(attr="gather"), args=[_, index]):
            places = ast.walk(index)
        case ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="arange"), args=[ast.Constant(value=1), end]):
            return [end] if is_sum(end) and isinstance(end.op, ast.Add) and is_unit(end.right) else []
        case _:
            places = []
    return [place for place in places if is_sum(place) and isinstance(place.op, ast.Sub) and is_unit(place.right)]


def find_arithmetic(source):
    """Return (line, text) of every sum that ``specsim.counts`` should have made, in order.

    A step is counted with its root (``num_steps + 1``, the width of a path); ``num_steps - 1`` is another thing, the
    steps after the first, and is left alone. So are products and bounds (``request * num_nodes - 1``): a term counts
    only if it is a name, an entry, a length or a sum of one. What says where something stands is left alone too.
    """
    tree = ast.parse(source)
    within = {id(side) for node in ast.walk(tree) if is_sum(node) for side in (node.left, node.right) if is_sum(side)}
    within |= {id(place) for node in ast.walk(tree) for place in places_of(node)}
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


def scanned():
    """Return every source that is scanned, by its path."""
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {name: path for name, path in names.items() if name != HOME and not name.startswith(tuple(OUTSIDE))}


def test_tokens_are_made_of_drafts_in_one_place():
    found = [
        (name, line, text)
        for name, path in sorted(scanned().items())
        for line, text in find_arithmetic(path.read_text(encoding="utf-8"))
    ]
    offenders = [f"{name}:{line}: {text}" for name, line, text in found if (name, text) not in ALLOWED]
    assert not offenders, "\n".join(["specsim.counts turns one count into another, but these do it too:", *offenders])
    stale = ALLOWED.keys() - {(name, text) for name, _, text in found}
    assert not stale, f"allowed sums that are nowhere: {sorted(stale)}"


def test_everything_that_decodes_is_scanned():
    folders = {name.rpartition("/")[0] for name in scanned()}
    assert folders >= {
        "specsim",
        "specsim/host",
        "specsim/simulation",
        "reference",
        "reference/worker",
        "gpu",
        "gpu/worker",
    }
    assert not [prefix for prefix in OUTSIDE if not any((ROOT / prefix).rglob("*.py"))]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_sum_is_found(planted):
    assert bool(find_arithmetic(f"value = {planted}\n")) == PLANTED[planted]


def test_a_planted_increment_is_found():
    assert find_arithmetic("num_accepted_drafts += 1\n") == [(1, "num_accepted_drafts += 1")]
    assert find_arithmetic("counters.num_accepted_tokens -= num_verifies\n")
    assert not find_arithmetic("histogram[num_accepted_drafts] += 1\n")
