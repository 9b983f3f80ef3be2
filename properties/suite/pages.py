"""What is generated in the pages of ``docs/reference``, between what is written by hand.

``python -m specsim.properties.suite.pages docs`` writes it, from the tables and the catalogues alone.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from specsim.operations import MODEL_TABLE, RECORDS
from specsim.operations.derived.page import contract_of
from specsim.operations.record import Operation
from specsim.properties.mutants import all_mutants
from specsim.properties.mutants.record import Mutant
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import GENERATED, all_properties, group_of
from specsim.properties.suite.statements import KINDS, OF_EVERY_OPERATION, sentence_of, statement_of
from specsim.validation import STRUCTURE

MARK = re.compile(r"<!-- (?P<name>[\w ]+): begin, written by make generate -->\n.*?<!-- (?P=name): end -->", re.DOTALL)
SECTION = re.compile(r"^## ((?:[0-9A-Q]\.\d+(?:\.\d+)?[a-c]?|Tagged KV)\b.*)$", re.MULTILINE)
CITED = re.compile(r"(?:(?<=semantics )|(?<=, ))(?:[0-9A-Q]\.\d+(?:\.\d+)?[a-c]?|tagged KV)\b")
MOST_OPERATIONS = 4
"""Of what a law calls, for it to stand with each operation; what calls more is a whole run."""

PLACES = {
    "oracle": "reference/{}.py",
    "host function": "gpu/{}.py",
    "kernels": "gpu/kernels/{}.py",
    "drawn by": "properties/operations/{}/strategy.py",
    "laws": "properties/operations/{}/laws.py",
    "faults": "properties/operations/{}/faults.py",
}
"""Where the parts of an operation stand, by its group."""


def written(docs: Path) -> dict[Path, str]:
    """Return each page of the reference as it should be, by its path."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted((docs / "reference").glob("*.md"))}
    links = {
        _key(heading): f"{path.name}#{anchor_of(heading)}"
        for path, text in pages.items()
        for heading in SECTION.findall(text)
    }
    blocks = {name: _operation(record, docs, links) for name, record in RECORDS.items()}
    blocks |= {"every operation": _of_every_operation(), "other laws": _other_laws()}
    found = {path: MARK.sub(lambda mark: _marked(mark["name"], blocks), text) for path, text in pages.items()}
    return {**found, docs / "semantics.md": _index(docs, pages, links)}


def anchor_of(heading: str) -> str:
    """Return what a heading is called in a link."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _key(heading: str) -> str:
    return heading.lower() if heading == "Tagged KV" else heading.partition(" ")[0].lower()


def _marked(name: str, blocks: dict[str, list[str]]) -> str:
    return "\n".join([f"<!-- {name}: begin, written by make generate -->", *blocks[name], f"<!-- {name}: end -->"])


def _index(docs: Path, pages: dict[Path, str], links: dict[str, str]) -> str:
    """Return the page of sections: the words before its table, and a line a section with what it defines first."""
    head, mark, _ = (docs / "semantics.md").read_text(encoding="utf-8").partition("| section |")
    titles = {path.name: text.partition("\n")[0].removeprefix("# ") for path, text in pages.items()}
    page_of = {block["name"]: path.name for path, text in pages.items() for block in MARK.finditer(text)}
    defined: dict[str, list[str]] = {}
    for name, record in RECORDS.items():
        first = CITED.findall(record.source)[0].lower()
        defined.setdefault(first, []).append(f"[`{name}`](reference/{page_of[name]}#{name})")
    rows = {
        _key(heading): (
            f"[{heading}](reference/{links[_key(heading)]})",
            ", ".join(defined.get(_key(heading), ())),
            titles[path.name],
        )
        for path, text in pages.items()
        for heading in SECTION.findall(text)
    }
    ordered = [rows[key] for key in sorted(rows, key=_order)]
    return head + "\n".join(table(("section", "operations", "page"), ordered)) + "\n" if mark else head


def _order(key: str) -> tuple[object, ...]:
    """Return what sections are sorted by: letters, numbers, letters after numbers; tagged KV before examples."""
    letter, *numbers = ["j", "99"] if key == "tagged kv" else key.split(".")
    return (letter, *((int(re.sub(r"\D", "", one)), one) for one in numbers))


def _operation(record: Operation, docs: Path, links: dict[str, str]) -> list[str]:
    """Return the lines about one operation: contract, picture, laws, faults, places."""
    rules = [one.in_words() for one in STRUCTURE.get(record.name, ())]
    laws = [one for one in all_properties() if record.name in one.operations and group_of(one) not in GENERATED]
    near = [one for one in laws if len(one.operations) <= MOST_OPERATIONS]
    faults = [mutant for mutant in all_mutants() if mutant.operation == record.name]
    source = CITED.sub(lambda cited: f"[{cited[0]}]({links[cited[0].lower()]})", record.source)
    return [
        f"### `{record.name}`",
        "",
        f"{record.summary} Source: {source}.",
        "",
        *contract_of(record, rules),
        "",
        *_picture(record.name, docs),
        *_latency(record.name, docs),
        *_folded(f"Laws: {_count(near, 'of its own')}, {_count(laws[len(near) :], 'of whole runs')}", _laws(near)),
        *_folded(f"Faults: {_count(faults, 'planted')}", _faults(faults)),
        f"{_places(record, docs)}. `specsim show {record.name}` prints this, and which tests name it.",
    ]


def _picture(name: str, docs: Path) -> list[str]:
    """Return the line that shows a picture of a call, where there is one."""
    place = f"pictures/{name}.svg"
    return [f"![A call of {name}, drawn]({place})", ""] if (docs / "reference" / place).exists() else []


def _latency(name: str, docs: Path) -> list[str]:
    """Return the line that says how long a call takes, where that was measured."""
    measured = json.loads((docs / "reference" / "latencies.json").read_text(encoding="utf-8"))
    rows = measured["rows"].get(name, ())
    times = "; ".join(f"{shape}: {median:.3g} µs, floor {floor:.3g}" for shape, median, floor in rows)
    return [f"Time of a call on one {measured['device']} (`{measured['command']}`): {times}.", ""] if rows else []


def _count(some: Sequence[object], of: str) -> str:
    return f"{len(some)} {of}"


def _folded(head: str, lines: list[str]) -> list[str]:
    """Return lines that open at a click, or only their head where there are none."""
    return ["<details>", f"<summary>{head}</summary>", "", *lines, "", "</details>", ""] if lines else [f"{head}.", ""]


def _laws(laws: Iterable[Property]) -> list[str]:
    rows = [(f"`{one.name}`", one.catalogue, sentence_of(one)) for one in laws]
    return table(("law", "number", "what must hold"), rows) if rows else []


def _faults(faults: Iterable[Mutant]) -> list[str]:
    rows = [(f"`{mutant.id}`", mutant.summary) for mutant in faults]
    return table(("fault", "what is wrong"), rows) if rows else []


def _places(record: Operation, docs: Path) -> str:
    group = f"models/{record.group}" if record.name in MODEL_TABLE else record.group
    paths = {what: place.format(group) for what, place in PLACES.items()}
    return ", ".join(f"[{what}](../../{path})" for what, path in paths.items() if (docs.parent / path).exists())


def _of_every_operation() -> list[str]:
    return [
        *table(("name", "what must hold"), ((f"`{name}.<operation>`", OF_EVERY_OPERATION[name]) for name in GENERATED)),
        "",
        *table(("number", "kind"), KINDS.items()),
    ]


def _other_laws() -> list[str]:
    """Return the laws that no operation has listed: of host functions and parts, and of whole runs."""
    laws = [one for one in all_properties() if group_of(one) not in GENERATED]
    others = [one for one in laws if len(one.operations) > MOST_OPERATIONS or not set(one.operations) & set(RECORDS)]
    rows = ((f"`{one.name}`", one.catalogue, statement_of(one).partition("\n")[0]) for one in others)
    return table(("law", "number", "what must hold"), rows)


def place_of(one: Property) -> str:
    """Return the page below the documentation that lists a property, and the heading that it stands under."""
    near = [RECORDS[name] for name in one.operations if name in RECORDS]
    if group_of(one) in GENERATED:
        return "reference/laws.md#of-every-operation"
    if not near or len(one.operations) > MOST_OPERATIONS:
        return "reference/laws.md#of-host-functions-and-of-whole-runs"
    page = "models" if near[0].name in MODEL_TABLE else near[0].group
    return f"reference/{page}.md#{near[0].name}"


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a table in Markdown, a line a row."""
    return [_line(header), _line(("---",) * len(header)), *(_line(row) for row in rows)]


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _changed(docs: Path) -> Iterator[tuple[Path, str]]:
    return ((path, text) for path, text in written(docs).items() if text != path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for _path, _text in _changed(Path(sys.argv[1])):
        _path.write_text(_text, encoding="utf-8")
