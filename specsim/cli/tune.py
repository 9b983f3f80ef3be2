"""``specsim tune``: configurations by tokens per second under measured costs."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from specsim.cli.choosing.source import SOURCE_NAMES, Source, with_source
from specsim.cli.output import EXIT_CODES, Exit, Failed, finish, plain_table, print_json, print_table, remark, say
from specsim.cli.simulating import stored
from specsim.cli.simulating.accepted import FILE
from specsim.cli.simulating.costs import read_file
from specsim.cli.simulating.options import MOST_BATCH, first_given
from specsim.cli.sweep import in_words, run_all
from specsim.installation import explain_missing, find_missing
from specsim.tuning.costs import CostFile
from specsim.tuning.counted import Cell
from specsim.tuning.ranges import parse_range
from specsim.tuning.tune import Choice, rank

BAR = 40
"""Characters of the longest bar."""

MOST_SHOWN = 10


@click.command(epilog=EXIT_CODES)
@click.option("--costs", "costs_path", required=True, type=FILE, metavar="FILE", help="Measured costs (JSON).")
@click.option("--batch", default="1,8,64", show_default=True, metavar="RANGE", help="Requests that run at once.")
@click.option("--length", type=click.IntRange(1), help="Tokens of a text.  [default: the largest measured length]")
@click.option(
    "--sweep", "saved", type=FILE, metavar="FILE", help="Take acceptance from a saved sweep, and run nothing."
)
@click.option("--plot", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER", help="Draw the speed-ups.")
@with_source
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def tune(
    costs_path: Path,
    batch: str,
    length: int | None,
    saved: Path | None,
    plot: Path | None,
    source: Callable[[], Source],
    as_json: bool,
) -> None:
    """Rank configurations by tokens per second.

    Acceptance comes from runs as of specsim sweep, or from a saved one; the time of an iteration from a file of costs,
    as specsim bench --costs measures it on a GPU. A configuration is tied with the best one where the interval of their
    ratio holds 1, with either time off by the error of the costs. One that was not measured, or of which fewer requests
    fit into memory than the batch has, is left out with the reason. Speed-ups are against decoding without drafts.
    """
    costs, times = read_file("--costs", costs_path)
    if times.target.tokens[0] > 1:
        least = f"the target was measured from {times.target.tokens[0]} tokens of a request on"
        raise Failed(f"--costs {costs_path}: {least}, and decoding without drafts takes 1", Exit.USAGE)
    batches = parse_range("--batch", batch, 1, MOST_BATCH, "larger batches are not captured")
    length = times.target.lengths[-1] if length is None else length
    if not times.target.lengths[0] <= length <= times.target.lengths[-1]:
        measured = f"{times.target.lengths[0]} to {times.target.lengths[-1]}, the lengths of --costs {costs_path}"
        raise Failed(f"--length is {length}, but should be {measured}", Exit.USAGE)
    if plot is not None:
        _require_plots(plot)
    if saved is None:
        chosen = source()
        cells, is_interrupted = run_all(chosen)
        seed = chosen.seed
        if is_interrupted:
            remark(f"specsim: interrupted: {len(cells)} of {len(chosen.cells)} combinations have run")
            finish(Exit.INTERRUPTED)
    else:
        _require_no_source()
        cells, seed = list(stored.read_cells("--sweep", saved)), 0
    ranked = {size: rank(cells, costs, times, size, length, seed) for size in batches}
    lines = speedups_of(ranked)
    if plot is not None:
        from specsim.cli.benching import plots

        plots.draw_speedups(costs.device, batches, lines, plot)
    if as_json:
        print_json(document_of(costs, length, seed, ranked))
    else:
        for size, choices in ranked.items():
            print_choices(size, choices)
        print_speedups(batches, lines)
        refused = sum(bool(cell.reason) for cell in cells)
        if refused:
            say(f"\n{refused} of {len(cells)} combinations cannot run; specsim sweep prints the rule of each")
    is_ranked = any(choice.cell is not None and not choice.reason for one in ranked.values() for choice in one)
    if not is_ranked:
        remark("specsim: no configuration can be ranked")
    finish(Exit.CONFORMS if is_ranked else Exit.NOTHING_SELECTED)


def _require_plots(folder: Path) -> None:
    if find_missing("plots"):
        raise Failed(explain_missing("plots", "--plot"), Exit.UNAVAILABLE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failed(f"--plot {folder}: {error.strerror}", Exit.USAGE) from error


def _require_no_source() -> None:
    """Refuse options that say what to run where nothing is run.

    Raises
    ------
    Failed
        USAGE.
    """
    given = first_given(SOURCE_NAMES)
    if given is not None:
        raise Failed(f"{given} says what to run, and --sweep has run it", Exit.USAGE)


def name_of(cell: Cell | None) -> str:
    """Return what tables call a configuration."""
    return "no drafts" if cell is None else f"{cell.drafter} {cell.topk}/{cell.steps}/{cell.draft_tokens}"


def speedups_of(ranked: dict[int, list[Choice]]) -> dict[str, list[float | None]]:
    """Return speed-ups by batch of every configuration that is the best one at some batch, by its name."""
    firsts = [next((one for one in choices if not one.reason), None) for choices in ranked.values()]
    best = dict.fromkeys(name_of(one.cell) for one in firsts if one is not None)
    found = [{name_of(one.cell): one.speedup.value for one in choices if not one.reason} for choices in ranked.values()]
    return {name: [at.get(name) for at in found] for name in best}


def print_choices(batch: int, choices: Sequence[Choice]) -> None:
    """Print the best configurations of a batch, which cannot be told from the first, and why others are left out."""
    ranked = [one for one in choices if not one.reason]
    shown = ranked[:MOST_SHOWN]
    knows_memory = any(one.requests_that_fit is not None for one in ranked)
    table = plain_table(
        "topk/steps/nodes",
        "#ms an iteration",
        "#tokens/s",
        "#speed-up",
        *(["#requests that fit"] if knows_memory else []),
        "against the best",
        title=f"batch {batch}",
    )
    for place, one in enumerate(shown):
        bounds = one.tokens_per_second
        around = "" if bounds.low is None else f" [{bounds.low:,.0f}, {bounds.high:,.0f}]"
        table.add_row(
            name_of(one.cell),
            f"{one.seconds * 1e3:.3f}",
            f"{bounds.value:,.0f}{around if one.cell is not None else ''}",
            in_words(one.speedup) if one.cell is not None else "1.00",
            *([f"{one.requests_that_fit:,}"] if knows_memory else []),
            "best" if not place else "cannot be told" if one.is_tied else "worse",
        )
    if shown:
        print_table(table)
    else:
        say(f"batch {batch}: nothing fits")
    if len(ranked) > len(shown):
        ties = sum(one.is_tied for one in ranked[MOST_SHOWN:])
        say(
            f"and {len(ranked) - len(shown)} more" + (f", of which {ties} cannot be told from the best" if ties else "")
        )
    reasons = Counter(one.reason for one in choices if one.reason and not (one.cell and one.cell.reason))
    for reason, count in reasons.items():
        say(f"left out {count}: {reason}")
    say()


def print_speedups(batches: Sequence[int], lines: dict[str, list[float | None]]) -> None:
    """Draw speed-up against batch, a bar each, of every configuration that is the best one somewhere."""
    most = max((one for line in lines.values() for one in line if one is not None), default=1.0)
    say("speed-up against batch")
    for name, line in lines.items():
        say(name)
        for batch, speedup in zip(batches, line, strict=True):
            bar = "" if speedup is None else "#" * max(round(BAR * speedup / most), 1)
            say(f"  {batch:5}  {'left out' if speedup is None else f'{speedup:5.2f}'}  {bar}".rstrip())


def document_of(costs: CostFile, length: int, seed: int, ranked: dict[int, list[Choice]]) -> dict[str, Any]:
    """Return the document of a ranking."""
    return {
        "device": costs.device,
        "model": costs.model,
        "error": costs.error,
        "length": length,
        "seed": seed,
        "batches": [
            {"batch": batch, "choices": [_public(one) for one in choices]} for batch, choices in ranked.items()
        ],
    }


def _public(choice: Choice) -> dict[str, Any]:
    cell = choice.cell
    named = {} if cell is None else {name: getattr(cell, name) for name in ("drafter", "topk", "steps", "draft_tokens")}
    built: dict[str, Any] = msgspec.to_builtins(choice)
    del built["cell"], built["batch"]
    if choice.reason:
        built = {"reason": choice.reason, "requests_that_fit": choice.requests_that_fit}
    return {"configuration": named or None, **built}
