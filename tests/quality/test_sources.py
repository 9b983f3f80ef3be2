"""What holds of every source file: names, sizes, and docstrings that agree with the table."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from specsim import reference
from specsim.contracts.contract import ArraySpec
from specsim.operations import RECORDS

ROOT = Path(__file__).parents[2]
FOLDERS = ("specsim", "reference", "gpu", "properties")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BANNED = {"accept" + "_length", "accept" + "_len", "accept" + "_lens", "num" + "_accepted"}
MOST_LINES = 300
NAME_AND_TYPE = re.compile(r"^    (?P<names>\w+(?:, \w+)*) : (?P<type>.+)$")


def shown(path):
    return str(path.relative_to(ROOT))


def test_sources_are_found():
    folders = {path.relative_to(ROOT).parts[0] for path in SOURCES}
    assert folders == set(FOLDERS)
    assert len(SOURCES) == len({path.resolve() for path in SOURCES})


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=shown)
def test_counts_say_what_they_count(path):
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    found = [
        (token.string, token.start[0]) for token in tokens if token.type == tokenize.NAME and token.string in BANNED
    ]
    assert not found, f"{found}: write num_accepted_drafts or num_accepted_tokens"


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=shown)
def test_a_module_has_at_most_300_lines(path):
    num_lines = len(path.read_text(encoding="utf-8").splitlines())
    assert num_lines <= MOST_LINES, f"{shown(path)} = {num_lines} lines, but should have at most {MOST_LINES}"


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_nothing_is_left_to_do(path):
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
    text = path.read_text(encoding="utf-8")
    assert not [word for word in words if re.search(rf"\b{word}\b", text)]


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_a_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_no_assertion_can_be_switched_off():
    """``python -O`` removes the statement ``assert``, and a law or a ledger would hold of everything."""
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Name) and node.id == "__debug__")
    ]
    assert not found, f"{found}: call require, require_kind or require_present of specsim.assertion"


def sections_of(docstring):
    """Return {name: type} of the parameters and of the results of a NumPy docstring."""
    found = {}
    section = None
    lines = docstring.splitlines()
    for line, underline in zip(lines, [*lines[1:], ""], strict=True):
        if set(underline.strip()) == {"-"}:
            section = line.strip()
        match = NAME_AND_TYPE.match(line)
        if match and section in ("Parameters", "Returns"):
            for name in match["names"].split(", "):
                found[name] = match["type"]
    return found


def test_sections_are_read():
    documented = sections_of(reference.fill_bonus_tokens.__doc__)
    assert documented == {
        "accept_tokens": "int32 [request, draft+1]",
        "num_accepted_tokens": "int32 [request]",
        "bonus_tokens": "int32 [request]",
    }


def dtypes_of(spec):
    return spec.dtype.replace("|", " or ")


def spelt(axis):
    return re.sub(r"^-\(-(\w+)//(\w+)\)$", r"ceil(\1/\2)", axis)


@pytest.mark.parametrize("name", RECORDS)
def test_docstrings_of_the_reference_agree_with_the_table(name):
    contract = RECORDS[name].contract
    documented = sections_of(vars(reference)[name].__doc__)
    for spec in (*contract.parameters, *contract.outputs):
        if spec.name not in documented:
            continue
        words = documented[spec.name]
        if not isinstance(spec, ArraySpec):
            kind = "bool" if spec.flag else "int"
            assert words == kind, f"{name}: {spec.name} : {words}, but should be {kind}"
            continue
        dtype, _, rest = words.removeprefix("list of ").partition(" [")
        axes = [axis.strip() for axis in rest.partition("]")[0].split(",")]
        assert words.startswith("list of ") == (spec.each is not None), f"{name}: {spec.name} : {words}"
        if " " not in spec.dtype or spec.dtype.startswith("like "):
            assert dtype == dtypes_of(spec), f"{name}: {spec.name} : {dtype}, but should be {dtypes_of(spec)}"
        if any(" if " in axis for axis in spec.axes):
            continue
        expected = [spelt(axis) for axis in spec.axes]
        assert axes == expected, f"{name}: {spec.name} [{', '.join(axes)}], but should be [{', '.join(expected)}]"
        is_optional = spec.optional and spec in contract.parameters
        assert words.endswith(" or None") == is_optional, f"{name}: {spec.name} : {words}"


@pytest.mark.parametrize("name", RECORDS)
def test_docstrings_of_the_reference_name_every_argument_and_output(name):
    docstring = vars(reference)[name].__doc__
    contract = RECORDS[name].contract
    missing = [spec.name for spec in (*contract.parameters, *contract.outputs) if spec.name not in docstring]
    shares = re.search(r"As for ``(\w+)``", docstring)
    assert not missing or shares, f"{name}: {missing} are not documented"
