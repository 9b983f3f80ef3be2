"""Every "semantics A.7" in the sources is a section of docs/reference, and that section is about the operation."""

import re
from pathlib import Path

from specsim import reference
from specsim.operations import RECORDS

ROOT = Path(__file__).parents[2]
FOLDERS = ("specsim", "reference", "gpu", "properties", "tests", "docs")
SECTION = r"(?:[0-9A-MQ]\.\d+(?:\.\d+)?[bc]?|tagged KV)"
CITATION = re.compile(rf"semantics,?\s+({SECTION}(?:,\s+{SECTION})*)")
HEADING = re.compile(r"^## ([0-9A-MQ]\.\d+(?:\.\d+)?[bc]?|Tagged KV)\b", flags=re.MULTILINE)
PAGE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "reference").glob("*.md")))


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
    assert cited_in("Source: semantics 0.3, C.3, A.11b. And semantics, tagged KV; semantics D.6, tagged KV.") == [
        *("0.3", "c.3", "a.11b"),
        "tagged kv",
        *("d.6", "tagged kv"),
    ]
    assert len(citing_files()) > 20


def test_section_names_are_unique():
    assert len(HEADING.findall(PAGE)) == len(sections())


def test_a_cited_section_exists():
    missing = {
        str(path.relative_to(ROOT)): sorted(absent)
        for path in citing_files()
        if (absent := set(cited_in(path.read_text(encoding="utf-8"))) - sections().keys())
    }
    assert not missing, f"docs/reference does not have {missing}"


def test_the_section_of_an_operation_names_it():
    nowhere = {
        name: cited
        for name, operation in RECORDS.items()
        for cited in [cited_in(operation.source)]
        if not any(f"`{name}" in sections()[section] or f"{name}:" in sections()[section] for section in cited)
    }
    assert not nowhere, f"{nowhere}: each should be named in a section that it cites"


def test_tables_and_docstrings_cite_the_same_sections():
    documented = {name: cited_in(vars(reference)[name].__doc__) for name in RECORDS}
    others = {name: cited for name, cited in documented.items() if cited != cited_in(RECORDS[name].source)}
    assert not others, f"docstrings cite {others}, but should cite what the table cites"
