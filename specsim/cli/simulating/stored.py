"""Stored runs: writing one, reading one as a baseline, and what a comparison ends with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from specsim.cli.output import Exit, Failed, plain_table, print_table, say
from specsim.tuning.counted import SCHEMA, Cell
from specsim.tuning.guard import LOWER, UNKNOWN, Guarded, compare

Guards = list[tuple[Cell, Guarded]]


def read_cells(option: str, path: Path) -> tuple[Cell, ...]:
    """Return the configurations of a document of ``specsim sweep`` or ``specsim simulate``, in JSON.

    Raises
    ------
    Failed
        USAGE: it cannot be read, or is none.
    """
    try:
        document = msgspec.json.decode(path.read_bytes())
        cells = document.get("cells", [document.get("acceptance")])
        if document.get("schema", SCHEMA) != SCHEMA:
            raise ValueError(f"its schema is {document['schema']}, and not {SCHEMA}")
        found = msgspec.convert(cells, tuple[Cell, ...])
    except OSError as error:
        raise Failed(f"{option} {path}: {error.strerror}", Exit.USAGE) from error
    except (msgspec.MsgspecError, ValueError, AttributeError, RecursionError) as error:
        raise Failed(f"{option} {path}: no document of specsim sweep or simulate: {error}", Exit.USAGE) from error
    for cell in found:
        counts = [count for one in cell.requests for count in (one.verifies, one.accepted, *one.histogram)]
        wrong = not all(0 <= count < float("inf") for count in counts)
        if wrong or not (cell.reason or any(one.verifies for one in cell.requests)):
            what = "counts below 0" if wrong else "no verify"
            raise Failed(f"{option} {path}: {cell} has {what}", Exit.USAGE)
    return found


def guard_all(baseline: Sequence[Cell], cells: Sequence[Cell], seed: int, margin: float) -> Guards:
    """Return the comparison of every configuration that both runs have counted."""
    then = {cell.key: cell for cell in baseline if not cell.reason}
    return [
        (cell, compare(then[cell.key].requests, cell.requests, seed, margin))
        for cell in cells
        if not cell.reason and cell.key in then and any(one.verifies for one in cell.requests)
    ]


def print_guards(guards: Guards, title: str) -> None:
    """Print a verdict a configuration."""
    if len(guards) == 1:
        ((cell, guarded),) = guards
        say(f"{guarded.verdict}: {cell}: {guarded}")
        return
    table = plain_table("configuration", "verdict", "change", title=title)
    for cell, guarded in guards:
        table.add_row(str(cell), guarded.verdict, str(guarded))
    print_table(table)


def public(guards: Guards) -> list[dict[str, Any]]:
    """Return comparisons as JSON has them."""
    names = ("drafter", "topk", "steps", "draft_tokens")
    return [{**{name: getattr(cell, name) for name in names}, **msgspec.to_builtins(one)} for cell, one in guards]


def exit_of(guards: Guards) -> Exit:
    """Return how a command ends that compared: with a failure, without a decision, or with nothing in common."""
    verdicts = [guarded.verdict for _, guarded in guards]
    if not verdicts:
        return Exit.NOTHING_SELECTED
    if LOWER in verdicts:
        return Exit.FAILURE
    return Exit.INCONCLUSIVE if UNKNOWN in verdicts else Exit.CONFORMS


def require_writable(option: str, path: Path | None) -> None:
    """Check that a file can be written, before anything is run.

    Raises
    ------
    Failed
        USAGE: it cannot.
    """
    if path is None:
        return
    try:
        path.open("a").close()
    except OSError as error:
        raise Failed(f"{option} {path}: {error.strerror}", Exit.USAGE) from error
