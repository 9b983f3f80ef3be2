"""``specsim sweep``: what ranges of sizes accept, with intervals, and which of them no other one beats."""

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import click
import msgspec

from specsim.cli.choosing.source import Source, with_source
from specsim.cli.output import (
    EXIT_CODES,
    Exit,
    Failed,
    finish,
    plain_table,
    print_json,
    print_table,
    progress,
    remark,
    say,
)
from specsim.cli.simulating import stored
from specsim.cli.simulating.accepted import FILE
from specsim.tuning.bootstrap import Interval
from specsim.tuning.counted import Cell, Run, public
from specsim.tuning.guard import MARGIN
from specsim.tuning.sweep import Row, as_csv, count_all, flat, rows_of


@click.command(epilog=EXIT_CODES)
@with_source
@click.option("--csv", "csv_path", type=FILE, metavar="FILE", help="Write a line a combination.")
@click.option("--save", type=FILE, metavar="FILE", help="Write the JSON document, as a baseline of later runs.")
@click.option("--baseline", type=FILE, metavar="FILE", help="Compare acceptance with a document of an earlier run.")
@click.option(
    "--margin",
    default=MARGIN,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Loss of tokens per verify that counts as none, as a share.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def sweep(
    source: Callable[[], Source],
    csv_path: Path | None,
    save: Path | None,
    baseline: Path | None,
    margin: float,
    as_json: bool,
) -> None:
    """Print what each combination of ranges accepts.

    A range is numbers with commas between them, FIRST..LAST, or FIRST..LAST..STEP. Every combination decodes the same
    prompts with a toy model, or is replayed on the logits of a real pair (--dump). Figures have intervals of 95 %, by
    resampling requests. A combination is on the frontier if none accepts as much with as few nodes and forwards of the
    draft. One that cannot run has the reason of the rules.

    With --baseline each combination that both runs have is lower, the same within the margin, or cannot be told apart.
    Lower ends the command with 1, undecided with 3.
    """
    stored.require_writable("--csv", csv_path)
    stored.require_writable("--save", save)
    before = None if baseline is None else stored.read_cells("--baseline", baseline)
    chosen = source()
    if not as_json:
        say(f"seed {chosen.seed}, {len(chosen.cells):,} combinations")
    cells, is_interrupted = run_all(chosen)
    rows = rows_of(cells, chosen.seed)
    guards = None if before is None else stored.guard_all(before, cells, chosen.seed, margin)
    document = document_of(chosen, rows)
    if guards is not None:
        document["guard"] = stored.public(guards)
    if save is not None:
        save.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1))
    if csv_path is not None:
        csv_path.write_text(as_csv(rows), "utf-8")
    if as_json:
        print_json(document)
    else:
        print_rows(rows)
        if guards is not None:
            stored.print_guards(guards, f"\nagainst {baseline}")
    if is_interrupted:
        remark(f"specsim: interrupted: {len(cells)} of {len(chosen.cells)} combinations have run")
        finish(Exit.INTERRUPTED)
    if not any(row.figures for row in rows):
        remark("specsim: no combination can run")
        finish(Exit.NOTHING_SELECTED)
    if guards is not None and not guards:
        remark(f"specsim: --baseline {baseline} has none of these combinations")
    finish(Exit.CONFORMS if guards is None else stored.exit_of(guards))


def run_all(source: Source) -> tuple[list[Cell], bool]:
    """Return what was counted, and whether an interrupt ended it."""
    cells: list[Cell] = []
    with progress("combinations") as on_progress:
        try:
            for cell in count_all(source.cells, source.count, on_progress, source.jobs):
                cells.append(cell)
        except KeyboardInterrupt:
            return cells, True
        except BrokenExecutor as error:
            message = f"a process of --jobs ended after {len(cells)} combinations, for want of memory perhaps"
            raise Failed(message, Exit.INCONCLUSIVE) from error
    return cells, False


def document_of(source: Source, rows: list[Row]) -> dict[str, Any]:
    """Return the document of a run, which is a baseline too."""
    document = msgspec.to_builtins(Run(source.about, source.seed, tuple(row.cell for row in rows)))
    for cell, row in zip(document["cells"], rows, strict=True):
        cell |= {"draft_forwards": row.cell.draft_forwards, "is_frontier": row.is_frontier}
        cell["figures"] = None if row.figures is None else public(row.figures)
    return dict(document)


def print_rows(rows: list[Row]) -> None:
    """Print a line a combination, the best first, and those that cannot run after them."""
    ran = [row for row in rows if row.figures is not None]
    table = plain_table(
        "drafter",
        "#topk",
        "#steps",
        "#nodes",
        "#accepted a verify",
        "#tokens a verify",
        "#draft forwards",
        "frontier",
    )
    for row in sorted(ran, key=lambda one: -one.figures.tokens_per_verify.value if one.figures else 0):
        line = flat(row)
        figures = row.figures
        if figures is None:
            continue
        table.add_row(
            row.cell.drafter,
            *(str(line[name]) for name in ("topk", "steps", "draft_tokens")),
            in_words(figures.accepted_per_verify),
            in_words(figures.tokens_per_verify),
            str(row.cell.draft_forwards),
            "yes" if row.is_frontier else "",
        )
    if ran:
        print_table(table)
    impossible = [row for row in rows if row.cell.reason]
    if impossible:
        say()
        reasons = plain_table("drafter", "#topk", "#steps", "#nodes", "why it cannot run")
        for (drafter, topk, steps, why), nodes in grouped([row.cell for row in impossible]).items():
            reasons.add_row(drafter, str(topk), str(steps), in_ranges(nodes), why)
        print_table(reasons)


def grouped(cells: Sequence[Cell]) -> dict[tuple[str, int, int, str], list[int]]:
    """Return the nodes that cannot be, by the rest of a combination and what they should be."""
    found: dict[tuple[str, int, int, str], list[int]] = {}
    for cell in cells:
        got = f"num_draft_tokens is {cell.draft_tokens}, but"
        why = cell.reason.replace(got, "num_draft_tokens") if cell.reason.startswith(got) else cell.reason
        found.setdefault((cell.drafter, cell.topk, cell.steps, why), []).append(cell.draft_tokens)
    return found


def in_ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as an option takes them, neighbours as a range."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(f"{part[0]}..{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def in_words(interval: Interval) -> str:
    """Return a figure with its bounds, as users read it."""
    if interval.low is None:
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
