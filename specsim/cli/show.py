"""``specsim show``: the contract and the places of an operation, the head of a host function, or a saved case drawn."""

from pathlib import Path

import click

from specsim.cli.drawing import arrays_table
from specsim.cli.output import EXIT_CODES, Exit, Failed, plain_table, print_table, say
from specsim.cli.places import places_of
from specsim.conformance.cases import read_case
from specsim.conformance.catalogue import CATALOGUE, Entry, Kind, unknown_name
from specsim.conformance.drawing import draw_requests
from specsim.conformance.page import signature_of, summary_of
from specsim.conformance.plain_text import shown
from specsim.operations.page import describe_requirement, rows_of
from specsim.operations.record import Operation
from specsim.validation import STRUCTURE


@click.command(epilog=EXIT_CODES)
@click.argument("subject", metavar="OP|CASE")
def show(subject: str) -> None:
    """Print the contract of an operation, or draw a case file.

    Of a host function, print what it takes and returns, and where it is written.
    """
    if subject in CATALOGUE:
        _show_callable(CATALOGUE[subject])
    elif Path(subject).exists() or Path(subject).suffix == ".json":
        _show_case(Path(subject))
    else:
        raise Failed(f"{subject} is neither an operation nor a case file{unknown_name(subject)}", Exit.USAGE)


def _show_callable(entry: Entry) -> None:
    kind = "" if entry.kind is Kind.OPERATION else f"{entry.kind}; "
    say(f"{entry.name}  ({kind}{entry.group}; {entry.source})")
    if entry.record is not None:
        _show_contract(entry.record)
    else:
        say(summary_of(entry))
        say(f"\n{signature_of(entry)}")
    places = plain_table("layer", "name", "place", title="\nplaces")
    for place in places_of(entry):
        places.add_row(place.layer, place.name, f"{place.path}:{place.line}")
    print_table(places)


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


def _show_case(path: Path) -> None:
    case = read_case(path)
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
