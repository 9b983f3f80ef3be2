"""``specsim show``: the contract and the places of an operation, the head of a host function, or a saved case drawn."""

from pathlib import Path

import click
from rich.markup import escape

from specsim.cli.drawing import arrays_table, draw_requests
from specsim.cli.output import EXIT_CODES, Exit, Failed, console, plain_table
from specsim.cli.places import places_of
from specsim.conformance.cases import read_case
from specsim.conformance.catalogue import CATALOGUE, Entry, Kind, unknown_name
from specsim.conformance.page import signature_of, summary_of
from specsim.conformance.plain_text import shown
from specsim.operations.page import describe_requirement, rows_of
from specsim.operations.record import Operation
from specsim.validation import STRUCTURE


@click.command(epilog=EXIT_CODES)
@click.argument("subject", metavar="OP|CASE")
def show(subject: str) -> None:
    """Print what an operation or a host function takes and returns and where it is written, or draw a case file."""
    if subject in CATALOGUE:
        _show_callable(CATALOGUE[subject])
    elif Path(subject).exists() or Path(subject).suffix == ".json":
        _show_case(Path(subject))
    else:
        raise Failed(f"{subject} is neither an operation nor a case file{unknown_name(subject)}", Exit.USAGE)


def _show_callable(entry: Entry) -> None:
    out = console()
    kind = "" if entry.kind is Kind.OPERATION else f"{entry.kind}; "
    out.print(f"[bold]{entry.name}[/bold]  ({kind}{entry.group}; {escape(entry.source)})")
    if entry.record is not None:
        _show_contract(entry.record)
    else:
        out.print(escape(summary_of(entry)))
        out.print(escape(f"\n{signature_of(entry)}"))
    places = plain_table("layer", "name", "place", title="\nplaces")
    for place in places_of(entry):
        places.add_row(place.layer, place.name, f"{place.path}:{place.line}")
    out.print(places)


def _show_contract(operation: Operation) -> None:
    out = console()
    out.print(escape(operation.summary))
    table = plain_table("argument", "type", "unit", "bounds", "defined entries", "remarks")
    table.columns[0].no_wrap = True
    for row in rows_of(operation):
        table.add_row(*(escape(cell) for cell in row))
    out.print(table)
    for requirement in operation.contract.requires:
        out.print(escape(describe_requirement(requirement)))
    for rule in STRUCTURE.get(operation.name, ()):
        out.print(escape(f"Must hold: {rule.in_words()}"))


def _show_case(path: Path) -> None:
    case = read_case(path)
    out = console()
    out.print(f"[bold]{case.operation}[/bold]  case {case.id}, found by {escape(case.property_name)}")
    out.print(escape(f"{shown(case.provenance.implementation)}, seed {case.provenance.seed}"))
    if case.message:
        out.print(escape(shown(case.message)))
    if case.law is not None and case.law.coins:
        out.print(escape(shown(case.law.in_words())))
    for drawing in draw_requests(case):
        click.echo(drawing)
    out.print(arrays_table("\narguments", case.arguments))
    for title, observation in (("expected", case.expected), ("observed", case.observed)):
        if observation.outputs:
            out.print(arrays_table(f"\n{title}", observation.outputs))
        else:
            out.print(escape(f"\n{title}: {shown(observation.in_words())}"))
