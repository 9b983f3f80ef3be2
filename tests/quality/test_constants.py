"""A number that several layers must take alike has one home; a law that states it again says so."""

import ast
import operator
import re
from pathlib import Path

import pytest

from specsim import config, hashing
from specsim.contracts.axes import evaluate
from specsim.host import sampling
from specsim.operations import RECORDS

ROOT = Path(__file__).parents[2]
FOLDERS = ("specsim", "reference", "gpu", "properties")
RESTATED = "restated"
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
HOMES = {
    1e-9: "specsim/host/sampling.py",
    2**24: "specsim/host/sampling.py",
    2**-24: "specsim/host/sampling.py",
}
"""Numbers that stand for one fact wherever they appear, and the module that names it."""

SHELF = r"properties/(operations|host|memory|runs)/(?!generated)(.*/)?"
BY_THEMSELVES = {
    r"properties/laws/.*": "a law says what is right without the code that it judges",
    SHELF + r"(?!strategy)[^/]*": "a law says what is right by itself, and a fault is wrong on purpose",
    r"properties/mutants/.*": "a fault is wrong on purpose",
    r"properties/strategies/recursion\.py": "a grid of scores of its own",
}
"""Where such a number may stand written out, and why."""


def sources():
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}


def folded(node):
    """Return the number that an expression of numbers is, or None."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = folded(operand)
            return None if value is None else -value
        case ast.Call(func=ast.Attribute(attr="constexpr") | ast.Name(id="float" | "int"), args=[argument]):
            return folded(argument)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            one, other = folded(left), folded(right)
            if one is None or other is None or (abs(other) > 200 and not isinstance(op, ast.Div | ast.Sub | ast.Add)):
                return None
            return OPERATORS[type(op)](one, other)
    return None


def constants_of(text):
    """Yield (line, name without underscores, number) of every constant of a module that is a number written out."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        number = folded(node.value) if targets and node.value is not None else None
        for target in targets:
            is_constant = isinstance(target, ast.Name) and target.id.isupper()
            if number is not None and is_constant and not is_restated(lines, node.lineno):
                yield node.lineno, target.id.strip("_"), number


def is_restated(lines, number):
    """Return whether the comment above a block of constants says that they are restated."""
    above = number - 2
    while above >= 0 and lines[above].strip() and not lines[above].startswith("#"):
        above -= 1
    return above >= 0 and lines[above].startswith("#") and RESTATED in lines[above]


def repeated(texts):
    """Return {(name, number): places} of the constants that several modules write out.

    NOTE: the host modules of the GPU layer count as one: how an operation is cut into programs is measured for each by
    itself, and that two come to the same number is chance.
    """
    found = {}
    for module, text in texts.items():
        home = "gpu" if module.startswith("gpu/") and not module.startswith("gpu/kernels/") else module
        if not re.search(r"^properties/mutants/|/faults(_\w+)?\.py$", module):
            for line, name, number in constants_of(text):
                found.setdefault((name, number), {}).setdefault(home, f"{module}:{line}")
    return {one: [*places.values()] for one, places in found.items() if len(places) > 1}


def written_out(texts):
    """Return the places that write a number out which has a home elsewhere."""
    found = []
    for module, text in texts.items():
        if any(re.fullmatch(place, module) for place in BY_THEMSELVES):
            continue
        for node in ast.walk(ast.parse(text)):
            number = folded(node) if isinstance(node, ast.expr) else None
            if number in HOMES and HOMES[number] != module:
                found.append(f"{module}:{node.lineno}: {ast.unparse(node)}, whose home is {HOMES[number]}")
    return found


def test_no_constant_is_written_out_twice():
    found = repeated(sources())
    lines = [f"{name} = {number}: {', '.join(places)}" for (name, number), places in sorted(found.items())]
    assert not found, "\n".join(["import it from one module, or say in a comment that it is restated:", *lines])


def test_numbers_that_have_a_home_are_imported_from_it():
    assert not written_out(sources()), "\n".join(written_out(sources()))


@pytest.mark.parametrize(
    "written", ["1e-9", "0.000000001", "2**24", "1 << 24", "16777216.0", "1.0 / 16777216.0", "2.0**-24"]
)
def test_a_planted_number_is_found(written):
    assert written_out({"gpu/planted.py": f"value = coin * ({written})\n"})
    assert not written_out({"properties/laws/planted.py": f"value = coin * ({written})\n"})


def test_a_planted_constant_is_found():
    texts = {"reference/one.py": "LEAST = 3\n", "gpu/kernels/other.py": "LEAST = tl.constexpr(2 + 1)\n"}
    assert repeated(texts) == {("LEAST", 3): ["reference/one.py:1", "gpu/kernels/other.py:1"]}
    assert not repeated({"gpu/one.py": "TILE = 64\n", "gpu/other.py": "TILE = 64\n"})
    law = {"properties/laws/one.py": "# NOTE: restated, not imported: so that it judges.\nMOST = 4\nLEAST = 3\n"}
    assert not repeated({"reference/one.py": "LEAST = 3\n", **law})


def test_contracts_state_the_same_bounds():
    """The bounds of contracts are a notation of their own, read by people: 2**32-1 is the largest seed."""
    for place, expected in {
        "generate_coins.seeds": sampling.LARGEST_SEED,
        "hash_target_logits.seed": hashing.MASK,
        "hash_target_logits.vocab_size": 1 << hashing.TOKEN_BITS,
        "build_tree.num_draft_tokens": config.MOST_NODES,
        "verify_tree_greedy.num_steps": config.MOST_NODES,
    }.items():
        operation, _, name = place.partition(".")
        assert evaluate(RECORDS[operation].contract.by_name[name].high, {}) == expected, place
