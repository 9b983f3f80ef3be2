"""Every "semantics A.7" in the sources is a section of docs/semantics.md, and that section is about the operation."""

import re
from pathlib import Path

import pytest

from specsim import reference
from specsim.operations import RECORDS

ROOT = Path(__file__).parents[2]
FOLDERS = ("specsim", "reference", "gpu", "properties", "tests", "docs")
SECTION = r"(?:[0-9A-M]\.\d+|tagged KV)"
CITATION = re.compile(rf"semantics,?\s+({SECTION}(?:,\s+{SECTION})*)")
HEADING = re.compile(r"^#{2,3} ([0-9A-M]\.\d+|Tagged KV)\b", flags=re.MULTILINE)
PAGE = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")


def sections():
    """Return {name in lower case: text}."""
    _, *parts = HEADING.split(PAGE)
    return {name.lower(): text for name, text in zip(parts[::2], parts[1::2], strict=True)}


def cited_in(text):
    return [name.lower() for found in CITATION.findall(text) for name in re.split(r",\s+", found)]


def citing_files():
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if path.suffix in (".py", ".md"))
    return [path for path in files if cited_in(path.read_text(encoding="utf-8"))]


def test_citations_are_read():
    assert cited_in("Source: semantics 0.3, C.3. And semantics, tagged KV; semantics D.6, tagged KV.") == [
        *("0.3", "c.3"),
        "tagged kv",
        *("d.6", "tagged kv"),
    ]
    assert len(citing_files()) > 20


def test_section_names_are_unique():
    assert len(HEADING.findall(PAGE)) == len(sections())


@pytest.mark.parametrize("path", citing_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_cited_section_exists(path):
    missing = set(cited_in(path.read_text(encoding="utf-8"))) - sections().keys()
    assert not missing, f"{path.name} cites {sorted(missing)}, which docs/semantics.md does not have"


@pytest.mark.parametrize("name", RECORDS)
def test_the_section_of_an_operation_names_it(name):
    cited = cited_in(RECORDS[name].source)
    assert any(f"`{name}" in sections()[section] or f"{name}:" in sections()[section] for section in cited), (
        f"{name} cites {cited}, but should be named there"
    )


@pytest.mark.parametrize("name", RECORDS)
def test_table_and_docstring_cite_the_same_sections(name):
    documented = cited_in(vars(reference)[name].__doc__)
    assert documented == cited_in(RECORDS[name].source), f"{name}: the docstring cites {documented}"
