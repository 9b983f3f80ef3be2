"""All small trees in a check instead of examples: the option, the operations that it takes, and what was tried."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from specsim.cli.output import Exit, Failed

if TYPE_CHECKING:
    from specsim.properties.suite.conformance.report import Report
    from specsim.properties.suite.conformance.selection import Promises


def exhaustive_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--exhaustive``."""
    words = "Try every tree of up to --max-nodes nodes (8 without it) instead of examples."
    return click.option("--exhaustive", "is_exhaustive", is_flag=True, help=words)(command)


def nodes_of(is_exhaustive: bool, most: Mapping[str, int], others: Mapping[str, object]) -> int | None:
    """Return the nodes of the largest trees, or None where examples are drawn.

    Parameters
    ----------
    most : mapping
        The largest sizes that the user wants.
    others : mapping
        Options that say how examples are drawn, as they are typed; None where one is not given.

    Raises
    ------
    Failed
        USAGE: one of these is given, too.
    """
    from specsim.properties.suite.small_trees.every import NUM_NODES

    if not is_exhaustive:
        return None
    for option, value in others.items():
        if value is not None:
            raise Failed(f"{option} is for examples, and --exhaustive draws none", Exit.USAGE)
    return most.get("nodes", NUM_NODES)


def operations_of(operations: Sequence[str], properties: Sequence[str], num_nodes: int) -> tuple[str, ...]:
    """Return the operations whose cases are tried: those that are named, by a property too, or else all that have any.

    Raises
    ------
    Failed
        USAGE: one that is named has none, or too many of so many nodes.
    """
    from specsim.properties.suite.small_trees.every import FORMS, MOST_CASES, property_of

    by_property = {property_of(name): name for name in FORMS}
    for name in (*operations, *properties):
        if name not in FORMS and name not in by_property:
            raise Failed(f"--exhaustive has no cases of {name}, but of {', '.join(FORMS)}", Exit.USAGE)
    named = dict.fromkeys([*operations, *(by_property[name] for name in properties)])
    chosen = tuple(named or FORMS)
    num_cases = dict.fromkeys(chosen, 0)
    for size in range(1, num_nodes + 1):
        for name in chosen:
            num_cases[name] += FORMS[name].count(size)
            if num_cases[name] > MOST_CASES:
                words = f"{name} has {num_cases[name]:,} cases of up to {size} nodes, but should have at most"
                raise Failed(f"{words} {MOST_CASES:,}, because each is tried: use --max-nodes {size - 1}", Exit.USAGE)
    return chosen


def require_any(backend: "Promises", operations: Sequence[str], num_nodes: int) -> None:
    """Refuse an implementation that defines none of the operations.

    Raises
    ------
    Failed
        NOTHING_SELECTED.
    """
    from specsim.properties.suite.small_trees.every import FORMS

    if not any(map(backend.has, operations)):
        num_cases = sum(FORMS[name].count_up_to(num_nodes) for name in operations)
        words = operations[0] if len(operations) == 1 else f"any of {', '.join(operations)}"
        raise Failed(f"{backend.name} does not define {words}: 0 of {num_cases:,} cases", Exit.NOTHING_SELECTED)


def document(report: "Report", num_nodes: int | None) -> dict[str, object] | None:
    """Return for JSON how many cases each operation has and how many were tried; None where examples were drawn."""
    if num_nodes is None:
        return None
    counts = {name: {"cases": cases, "tried": tried} for name, cases, tried in _counts(report, num_nodes)}
    return {"nodes": num_nodes, "operations": counts}


def lines(report: "Report", num_nodes: int | None) -> Iterator[str]:
    """Yield a line for each operation of which cases were tried."""
    for name, cases, tried in () if num_nodes is None else _counts(report, num_nodes):
        share = f"all {cases:,}" if tried == cases else f"{tried:,} of {cases:,}"
        yield f"tried: {name}, {share} cases of up to {num_nodes} nodes"


def _counts(report: "Report", num_nodes: int) -> Iterator[tuple[str, int, int]]:
    from specsim.properties.suite.small_trees.every import FORMS, property_of

    for name, form in FORMS.items():
        one = report.properties.get(property_of(name))
        if one is not None and not one.missing:
            yield name, form.count_up_to(num_nodes), one.examples
