"""``specsim show``: an operation with its laws, faults and tests, a host function, a law, a fault, or a case drawn."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

import specsim
from specsim.cli.names import complete_mutants, complete_properties
from specsim.cli.output import (
    EXIT_CODES,
    Exit,
    Failed,
    finish,
    plain_table,
    print_table,
    require_writable,
    say,
    write_file,
)
from specsim.cli.screen import Table
from specsim.cli.suite import Place, print_fault, print_law, print_suite
from specsim.conformance.cases import read_case
from specsim.conformance.catalogue import CATALOGUE, Entry, Kind, unknown_name
from specsim.conformance.drawing import draw_requests, strides_of
from specsim.conformance.page import signature_of, summary_of
from specsim.conformance.pictures import draw_case
from specsim.conformance.plain_text import shown
from specsim.operations.derived.page import describe_requirement, rows_of
from specsim.operations.record import Operation
from specsim.operations.without_coins import SUFFIX
from specsim.validation import STRUCTURE

SHOWN_CHARACTERS = 300
LAYERS = ("reference", "gpu", "gpu/kernels", "properties/operations")


@click.command(epilog=EXIT_CODES)
@click.argument("subject", metavar="[OP|CASE]", required=False)
@click.option("--law", metavar="NAME", shell_complete=complete_properties, help="Print this property in full.")
@click.option("--fault", metavar="NAME", shell_complete=complete_mutants, help="Print this mutant in full.")
@click.option(
    "--svg", type=click.Path(path_type=Path, readable=False), metavar="FILE", help="Write a picture of the case, too."
)
def show(subject: str | None, law: str | None, fault: str | None, svg: Path | None) -> None:
    """Print an operation with its laws and faults, or draw a case.

    Of an operation, print its contract first; of a host function, what it takes and returns, and where it is written.
    Of a law, print what it states, the faults that it kills, and what runs it; of a fault, what is wrong, and what
    kills it.
    """
    if sum(one is not None for one in (subject, law, fault)) != 1:
        raise Failed("show takes one of these: an operation, a case file, --law NAME or --fault NAME", Exit.USAGE)
    if svg is not None and (subject is None or subject in CATALOGUE):
        raise Failed("--svg draws a case file, and none is given", Exit.USAGE)
    if law is not None:
        print_law(law)
    elif fault is not None:
        print_fault(fault)
    elif subject in CATALOGUE:
        _show_callable(CATALOGUE[subject])
    elif subject is not None and (Path(subject).exists() or Path(subject).suffix == ".json"):
        _show_case(Path(subject), svg)
    else:
        raise Failed(f"{subject} is neither an operation nor a case file{unknown_name(str(subject))}", Exit.USAGE)


def _show_callable(entry: Entry) -> None:
    kind = "" if entry.kind is Kind.OPERATION else f"{entry.kind}; "
    say(f"{entry.name}  ({kind}{entry.group}; {entry.source})")
    if entry.record is not None:
        _show_contract(entry.record)
    else:
        say(summary_of(entry))
        say(f"\n{signature_of(entry)}")
    places = plain_table("layer", "name", "place", title="\nplaces")
    for row in _places_of(entry):
        places.add_row(*row)
    print_table(places)
    print_suite(entry)


def _show_contract(operation: Operation) -> None:
    say(operation.summary)
    table = plain_table("argument", "type", "unit", "bounds", "defined entries", "remarks")
    for row in rows_of(operation):
        table.add_row(*row)
    print_table(table)
    for requirement in operation.contract.requires:
        say(describe_requirement(requirement))
    for rule in STRUCTURE.get(operation.name, ()):
        say(f"Must hold: {rule.in_words()}")


def _show_case(path: Path, svg: Path | None) -> None:
    case = read_case(path)
    if svg is not None:
        require_writable("--svg", svg)
        if not write_file("--svg", svg, draw_case(case)):
            finish(Exit.USAGE)
    say(f"{case.operation}  case {case.id}, found by {case.property_name}")
    say(f"{shown(case.provenance.implementation)}, seed {case.provenance.seed}")
    if case.message:
        say(shown(case.message))
    if case.law is not None and case.law.coins:
        say(shown(case.law.in_words()))
    for drawing in draw_requests(case):
        say(drawing)
    print_table(arrays_table("\narguments", case.arguments))
    for title, observation in (("expected", case.expected), ("observed", case.observed)):
        if observation.outputs:
            print_table(arrays_table(f"\n{title}", observation.outputs))
        else:
            say(f"\n{title}: {shown(observation.in_words())}")


def arrays_table(title: str, arrays: Mapping[str, Any]) -> Table:
    """Return a table of arrays: name, dtype, shape, entries."""
    table = plain_table("name", "dtype", "shape", "entries", title=title)
    for name, value in arrays.items():
        if isinstance(value, list):
            for index, entry in enumerate(value):
                table.add_row(f"{name}[{index}]", *_cells(entry))
        else:
            table.add_row(name, *_cells(value))
    return table


def _cells(value: Any) -> tuple[str, str, str]:
    if not isinstance(value, np.ndarray):
        return "", "", "not given" if value is None else str(value)
    entries = str(value.tolist())
    if len(entries) > SHOWN_CHARACTERS:
        entries = entries[:SHOWN_CHARACTERS] + " …"
    layout = strides_of(value)
    return value.dtype.name, f"{list(value.shape)}{f' {layout}' if layout else ''}", entries


def _places_of(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Yield layer, name and place of the record, the function of each layer, and the kernels of an operation.

    Layers are read and not imported. A host function has one place. A sampler without coins has the record of the
    operation that it is a form of.
    """
    root = Path(specsim.__file__).parent
    if entry.on_host is not None:
        path = Path(inspect.getfile(entry.on_host))
        yield "host", entry.name, str(Place(path, inspect.getsourcelines(entry.on_host)[1]))
        return
    operation = entry.name.removesuffix(SUFFIX)
    table_file = next((root / "operations").rglob(f"{entry.group}.py"))
    yield "table", operation, str(Place(table_file, _line_of_record(table_file, operation)))
    for layer in LAYERS if entry.name == operation else ():
        for path in _sources(root / layer):
            for name, line in _functions(path, operation):
                if name == operation or (layer == "gpu/kernels" and name.startswith(f"_{operation}_")):
                    yield "margin" if path.stem == "margins" else layer, name, str(Place(path, line))


def _sources(folder: Path) -> list[Path]:
    """Return the modules of a layer and of its models' room."""
    return sorted((*folder.glob("*.py"), *folder.glob("models/*.py"), *folder.rglob("strategy*.py")))


def _functions(path: Path, word: str) -> Iterator[tuple[str, int]]:
    """Yield the functions of a module that mentions a word, and their lines; to parse every module would take long."""
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body if word in text else ():
        if isinstance(node, ast.FunctionDef):
            yield node.name, node.lineno


def _line_of_record(path: Path, operation: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if f'name="{operation}"' in line), 1)
