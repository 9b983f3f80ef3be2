"""What the suite has of an operation: laws, faults and tests; and one law, or one fault, in full."""

import ast
import os
import re
from collections.abc import Iterable
from functools import cache, partial
from inspect import unwrap
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import specsim
from specsim.cli.device import need_suite
from specsim.cli.names import meant
from specsim.cli.output import Exit, Failed, plain_table, print_table, say
from specsim.conformance.catalogue import Entry
from specsim.installation import explain_missing, find_missing
from specsim.operations.without_coins import SUFFIX

if TYPE_CHECKING:
    from specsim.properties.mutants.record import Mutant
    from specsim.properties.property import Property
    from specsim.properties.suite.hunt.kills import Kills, Row

ROOT = Path(specsim.__file__).resolve().parents[1]
RECORD = Path("tests", "properties", "mutants", "kills.json")
REPORTS = Path("docs", "mutants.md")
ALONE, FIRST, TOO = "by it alone", "by it first", "by others first"
"""How a law kills a fault, as far as the record goes."""


class Place(NamedTuple):
    """A line of a source file."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{shown_path(self.path)}:{self.line}"


def shown_path(path: Path) -> str:
    """Return a path as a user types it: relative where it is in the working directory."""
    resolved = path.resolve()
    return os.path.relpath(resolved) if resolved.is_relative_to(Path.cwd()) else str(resolved)


def print_suite(entry: Entry) -> None:
    """Print the laws that touch an operation, its faults, and where tests of it are."""
    if find_missing("properties"):
        say(f"\nlaws and faults: {explain_missing('properties', 'the suite')}")
    else:
        need_suite()
        _print_laws_and_faults(entry.name)
    _print_tests(entry.name)


def _print_laws_and_faults(operation: str) -> None:
    from specsim.properties.mutants import all_mutants
    from specsim.properties.suite.catalogue import all_properties
    from specsim.properties.suite.statements import sentence_of

    laws = plain_table("law", "what must hold", title="\nlaws")
    for one in all_properties():
        if operation in one.operations:
            laws.add_row(one.name, sentence_of(one))
    print_table(laws)
    faults = plain_table("fault", "what is wrong", title="\nfaults")
    for mutant in all_mutants():
        if mutant.operation == operation:
            faults.add_row(mutant.id, mutant.summary)
    if faults.rows:
        print_table(faults)
    else:
        say(f"\nfaults: those of {operation.removesuffix(SUFFIX)}, of which it is a form")
    say("\nspecsim show --law NAME and specsim show --fault NAME print one in full; these lines run them:")
    say(f"specsim check --operation {operation}")
    if faults.rows:
        say(f"specsim mutants {faults.rows[0][0]}")


def _print_tests(name: str) -> None:
    if not has_tests():
        say("\ntests: a checkout of specsim has them, and an installed package has none")
        return
    found = _tests_of(name)
    if not found:
        say("\ntests: none names it, and its laws are tests of it")
        return
    tests = plain_table("place", "#tests", title="\ntests")
    for place, number in found:
        tests.add_row(str(place), str(number) if number else "")
    print_table(tests)


def has_tests() -> bool:
    """Return whether specsim is imported from a checkout, which has its tests; another package may be called so."""
    return (ROOT / RECORD).is_file()


@cache
def _test_texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))}


def _tests_of(name: str) -> list[tuple[Place, int]]:
    """Return for each test file the first line that names a callable, and how many tests name it.

    Imports do not count. Files whose tests do not name it, but what they share does, are left out if others are there.
    """
    word = re.compile(rf"\b{re.escape(name)}\b")
    found = []
    for path, text in _test_texts().items():
        if name not in text:
            continue
        lines = {number for number, line in enumerate(text.splitlines(), 1) if word.search(line)}
        naming = [(of, is_test) for of, is_test in _statements_of(path) if not lines.isdisjoint(of)]
        if naming:
            first = min(lines.intersection(chain.from_iterable(of for of, _ in naming)))
            found.append((Place(path, first), sum(is_test for _, is_test in naming)))
    return [(place, number) for place, number in found if number] or found


@cache
def _statements_of(path: Path) -> list[tuple[range, bool]]:
    """Return the lines of each statement of a test file but for its imports, and whether it is a test."""
    return [
        (_lines_of(node), isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
        for node in ast.parse(_test_texts()[path]).body
        if not isinstance(node, ast.Import | ast.ImportFrom)
    ]


def _lines_of(node: ast.stmt) -> range:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    return range(min([node.lineno, *(one.lineno for one in decorators)]), (node.end_lineno or node.lineno) + 1)


def print_law(name: str) -> None:
    """Print what a property states, what it calls, which faults it kills, how often it is tried, and what runs it.

    Raises
    ------
    Failed
        USAGE: there is no such property; UNAVAILABLE: the suite cannot be imported.
    """
    need_suite()
    from specsim.properties.suite.catalogue import properties_by_name
    from specsim.properties.suite.statements import KINDS, statement_of

    one = _named(name, "property", properties_by_name(), "specsim list properties")
    say(f"{one.name}  ({f'{one.catalogue}: {KINDS[one.catalogue]}' if one.catalogue in KINDS else 'property'})")
    say(statement_of(one))
    say(f"\noperations: {', '.join(one.operations)}")
    say(f"examples: {_examples_of(one)}")
    say(f"place: {_place_of_function(one.law)}")
    _print_victims(one)
    say("\nthis line runs it:")
    say(f"specsim check --property {one.name}")


def _examples_of(one: "Property") -> str:
    from specsim.cli.isolation import DEFAULT
    from specsim.properties.suite.conformance.selection import examples_of

    number = examples_of(one, DEFAULT.examples, DEFAULT.slow_examples)
    counted = "1 by default" if number == 1 else f"{number} by default"
    return f"{counted}, each a whole run" if one.is_slow else counted


def _print_victims(one: "Property") -> None:
    """Print the faults that the record of kills says a property kills."""
    from specsim.properties.mutants import all_mutants

    kills = _kills()
    if kills is None:
        say(f"faults: {_lacks_the_record('which it kills')}")
        return
    table = plain_table("fault", "killed", "operation", "what is wrong", title="\nfaults that it kills, by the record")
    for mutant in all_mutants():
        how = _how_killed(one.name, kills, mutant.id)
        if how:
            table.add_row(mutant.id, how, mutant.operation, mutant.summary)
    print_table(table)


def _how_killed(name: str, kills: "Kills", mutant: str) -> str:
    """Return how a property kills a mutant, as far as a record goes, or nothing."""
    killers = kills.rows[mutant].killers if mutant in kills.rows else ()
    if killers[:1] == (name,):
        return ALONE if len(killers) == 1 else FIRST
    return TOO if name in killers or kills.victims.get(name) == mutant else ""


def print_fault(name: str) -> None:
    """Print what a mutant changes and where, the report it comes from, and what kills it.

    Raises
    ------
    Failed
        USAGE: there is no such mutant; UNAVAILABLE: the suite cannot be imported.
    """
    need_suite()
    from specsim.properties.mutants import all_mutants
    from specsim.properties.mutants.edits import Edit

    one = _named(name, "mutant", {mutant.id: mutant for mutant in all_mutants()}, "specsim list mutants")
    say(f"{one.id}  (fault of {one.operation}{_carrier_of(one)})")
    say(one.summary)
    say(f"\nplace: {_place_of_mutant(one)}")
    say(f"report: {_report_of(one.id)}")
    if isinstance(one.inject, Edit):
        say(f"\nwhat stands in the correct {one.inject.place() or one.operation} (-), and what in the faulty one (+)")
        say("\n".join(one.inject.lines()))
    _print_killers(one.id)
    say("\nthis line runs it:")
    say(f"specsim mutants {one.id}")


def _carrier_of(one: "Mutant") -> str:
    """Return which worker or scheduler carries a fault that is in no operation."""
    workers = [name for name, given in (("V2", one.worker), ("V1", one.worker_v1)) if given is not None]
    carriers = [*(f"worker {name}" for name in (*workers, *one.workers)), *["scheduler"] * (one.scheduler is not None)]
    return f", planted in {', '.join(carriers)}" if carriers else ""


def _print_killers(mutant: str) -> None:
    from specsim.properties.suite.catalogue import properties_by_name
    from specsim.properties.suite.statements import sentence_of

    kills = _kills()
    if kills is None:
        say(f"killed by: {_lacks_the_record('what kills it')}")
        return
    row = kills.rows.get(mutant)
    if row is None:
        say("killed by: the record of kills does not have it")
        return
    table = plain_table("law", "what must hold", title="\nlaws that kill it, the surest first, whole runs last")
    for name in row.killers:
        table.add_row(name, sentence_of(properties_by_name()[name]))
    print_table(table)
    say(_first_examples(row))


def _first_examples(row: "Row") -> str:
    found = [example for example in row.examples if example is not None]
    seeds = f"{row.seeds} of {len(row.examples)} seeds"
    if not found:
        return f"killed with {seeds}"
    span = " to ".join(dict.fromkeys(str(bound(found)) for bound in (min, max)))
    return f"killed with {seeds}, first at example {span}, median {row.median:g}"


def _report_of(mutant: str) -> str:
    """Return where a fault was reported: the engine and the thread, as the page about mutants has them."""
    page = ROOT / REPORTS
    if not (has_tests() and page.is_file()):
        return f"{REPORTS.as_posix()} of a checkout of specsim has it, where there is one"
    row = rf"^\| `{re.escape(mutant)}` \| (?P<engine>[^|]+) \| (?P<thread>[^|]+#\d+[^|]*) \|$"
    found = re.search(row, page.read_text(encoding="utf-8"), re.MULTILINE)
    return f"{found['thread']} ({found['engine']})" if found else "none"


def _kills() -> "Kills | None":
    """Return the record of kills, or None where there is none."""
    from specsim.properties.suite.hunt.kills import read_kills

    return read_kills(ROOT / RECORD) if has_tests() else None


def _lacks_the_record(what: str) -> str:
    return f"{what} is recorded in a checkout of specsim, and an installed package has no record"


def _named(name: str, kind: str, known: Any, listing: str) -> Any:
    if name not in known:
        raise Failed(f"{name} is no {kind}; {meant(name, known, listing)}", Exit.USAGE)
    return known[name]


def _place_of_function(function: Any) -> Place:
    while isinstance(function, partial):
        function = function.func
    code = unwrap(function).__code__
    return Place(Path(code.co_filename), code.co_firstlineno)


def _place_of_mutant(one: "Mutant") -> Place:
    """Return the line of the row of a mutant; of one that a loop makes, the line of its text, number or list."""
    from specsim.properties.shelves import modules_of_kind

    for module in modules_of_kind("faults").values():
        if any(mutant is one for mutant in vars(module).get("MUTANTS", ())):
            path, texts = Path(str(module.__file__)), (f'"{one.id}"', one.summary[:40], one.id.removeprefix("OWN-"))
            return Place(path, _line_of(path, (*texts, "MUTANTS")))
    raise LookupError(one.id)


def _line_of(path: Path, texts: Iterable[str]) -> int:
    """Return the line of the first of some texts that a file has."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for text in texts for number, line in enumerate(lines, 1) if text in line), 1)
