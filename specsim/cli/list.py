"""``specsim list``: the names that other commands take, with what each stands for."""

from collections.abc import Callable, Sequence

import click

from specsim.cli.output import EXIT_CODES, notice, plain_table, print_json, print_table, say

Row = dict[str, str]
"""A name and what there is to say about it, by column."""


def _operations() -> Sequence[Row]:
    from specsim.conformance.catalogue import CATALOGUE
    from specsim.conformance.page import summary_of

    return [
        {
            "name": name,
            "kind": str(entry.kind),
            "group": entry.group,
            "summary": summary_of(entry) if entry.record is None else entry.record.summary,
        }
        for name, entry in CATALOGUE.items()
    ]


def _properties() -> Sequence[Row]:
    from specsim.properties.suite.catalogue import all_properties
    from specsim.properties.suite.statements import statement_of

    return [{"name": one.name, "summary": statement_of(one).partition("\n")[0]} for one in all_properties()]


def _cells() -> Sequence[Row]:
    from specsim.properties.matrix.factors import all_cells

    return [{"name": cell.name} for cell in all_cells()]


def _mutants() -> Sequence[Row]:
    from specsim.properties.mutants import all_mutants

    return [{"name": one.id, "operation": one.operation, "summary": one.summary} for one in all_mutants()]


def _algorithms() -> Sequence[Row]:
    from specsim.algorithms import ALIAS_OF_EAGLE, DRAFTERS
    from specsim.cli.simulating.drafting import NAMES

    aliases = {"EAGLE": f" Also called {ALIAS_OF_EAGLE}."}
    return [{"name": name, "summary": DRAFTERS[name].summary + aliases.get(name, "")} for name in NAMES]


KINDS: dict[str, tuple[Callable[[], Sequence[Row]], str]] = {
    "operations": (_operations, "operations and host functions that a module may define: check --operation, show"),
    "properties": (_properties, "laws that a module is held to: check --property"),
    "cells": (_cells, "engines of the matrix, allowed or refused: matrix --cell"),
    "mutants": (_mutants, "seeded faults: mutants"),
    "algorithms": (_algorithms, "ways to draft: simulate --algorithm, rules --algorithm"),
}


@click.command(epilog=EXIT_CODES)
@click.argument("kind", required=False, type=click.Choice([*KINDS]), metavar=f"[{'|'.join(KINDS)}]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def list(kind: str | None, as_json: bool) -> None:
    """Print the names that other commands take.

    Without an argument, print how many there are of each kind, and which commands take them.
    """
    notice("importing the suite …")
    if kind is None:
        counts = {name: len(rows()) for name, (rows, _) in KINDS.items()}
        if as_json:
            print_json(counts)
            return
        table = plain_table("kind", "#names", "what they are, and where they are taken")
        for name, (_, what) in KINDS.items():
            table.add_row(name, f"{counts[name]:,}", what)
        print_table(table)
        say("\nspecsim list KIND prints all of a kind.")
        return
    rows = KINDS[kind][0]()
    if as_json:
        print_json({kind: rows})
        return
    table = plain_table(*(["name", "summary"] if "summary" in rows[0] else ["name"]))
    for row in rows:
        # NOTE: where a line is short, what an operation is goes without saying, and a fault is one of something.
        kind_of = "" if row.get("kind") in (None, "operation") else f" ({row['kind']})"
        of_operation = f"{row['operation']}: " if "operation" in row else ""
        table.add_row(row["name"], *([f"{of_operation}{row['summary']}{kind_of}"] if "summary" in row else []))
    print_table(table)
