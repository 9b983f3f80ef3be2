"""What holds of every source file: names, sizes, and docstrings that agree with the table."""

import io
import re
import tokenize
from collections import Counter
from functools import cache
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
MOST_LINES, MOST_LINES_OF_TESTS, MOST_MODULES = 400, 600, 30
NAME_AND_TYPE = re.compile(r"^    (?P<names>\w+(?:, \w+)*) : (?P<type>.+)$")


def shown(path):
    return str(path.relative_to(ROOT))


def test_sources_are_found():
    folders = {path.relative_to(ROOT).parts[0] for path in SOURCES}
    assert folders == set(FOLDERS)
    assert len(SOURCES) == len({path.resolve() for path in SOURCES})


@cache
def text_of(path):
    return path.read_text(encoding="utf-8")


def test_counts_say_what_they_count():
    found = [
        f"{shown(path)}:{token.start[0]} {token.string}"
        for path in [*SOURCES, *TESTS]
        if any(word in text_of(path) for word in BANNED)
        for token in tokenize.generate_tokens(io.StringIO(text_of(path)).readline)
        if token.type == tokenize.NAME and token.string in BANNED
    ]
    assert not found, f"write num_accepted_drafts or num_accepted_tokens: {found}"


@pytest.mark.parametrize(("paths", "most"), [(SOURCES, MOST_LINES), (TESTS, MOST_LINES_OF_TESTS)])
def test_a_module_can_be_read_in_one_go(paths, most):
    lines = {shown(path): len(text_of(path).splitlines()) for path in paths}
    longer = {path: count for path, count in lines.items() if count > most}
    assert not longer, f"{longer}, but should have at most {most} lines"


def test_a_folder_can_be_taken_in_at_a_glance():
    """A folder lists at most 30 modules, so that its listing reads like a table of contents."""
    modules = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    wide = {shown(folder): count for folder, count in modules.items() if count > MOST_MODULES}
    assert not wide, f"{wide}, but should have at most {MOST_MODULES} modules"


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


def differences(name):
    """Yield what the docstring of an operation says of its arrays and scalars, and the table does not."""
    contract = RECORDS[name].contract
    documented = sections_of(vars(reference)[name].__doc__)
    for spec in (*contract.parameters, *contract.outputs):
        if spec.name not in documented:
            continue
        words = documented[spec.name]
        if not isinstance(spec, ArraySpec):
            kind = "bool" if spec.flag else "int"
            if words != kind:
                yield f"{name}: {spec.name} : {words}, but should be {kind}"
            continue
        dtype, _, rest = words.removeprefix("list of ").partition(" [")
        axes = [axis.strip() for axis in rest.partition("]")[0].split(",")]
        if words.startswith("list of ") != (spec.each is not None):
            yield f"{name}: {spec.name} : {words}"
        if (" " not in spec.dtype or spec.dtype.startswith("like ")) and dtype != dtypes_of(spec):
            yield f"{name}: {spec.name} : {dtype}, but should be {dtypes_of(spec)}"
        if any(" if " in axis for axis in spec.axes):
            continue
        expected = [spelt(axis) for axis in spec.axes]
        if axes != expected:
            yield f"{name}: {spec.name} [{', '.join(axes)}], but should be [{', '.join(expected)}]"
        if words.endswith(" or None") != (spec.optional and spec in contract.parameters):
            yield f"{name}: {spec.name} : {words}"


def test_docstrings_of_the_reference_agree_with_the_tables():
    found = [difference for name in RECORDS for difference in differences(name)]
    assert not found, "\n".join(found)


def test_docstrings_of_the_reference_name_every_argument_and_output():
    missing = [
        f"{name}: {spec.name} is not documented"
        for name, operation in RECORDS.items()
        for docstring in [vars(reference)[name].__doc__]
        if not re.search(r"As for ``(\w+)``", docstring)
        for spec in (*operation.contract.parameters, *operation.contract.outputs)
        if spec.name not in docstring
    ]
    assert not missing, "\n".join(missing)
