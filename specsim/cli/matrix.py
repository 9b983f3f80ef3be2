"""``specsim matrix``: an engine in every combination of worker, pages, trees, pools and schedules that is allowed."""

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from specsim.cli.ci_files import CiFiles, Ended, ReportFile, with_ci_files, with_report
from specsim.cli.device import OURS, choose_device_for, need_suite
from specsim.cli.documents import circumstances
from specsim.cli.interrupts import finish_undisturbed
from specsim.cli.isolation import bounded_jobs, engine_workers, with_limits_of_calls
from specsim.cli.matrix_results import Place, Report, matrix_document, print_matrix, tests_of
from specsim.cli.names import JOBS, SEED, Count, complete_cells, complete_modules
from specsim.cli.output import (
    EXIT_CODES,
    EXIT_OF_VERDICT,
    Exit,
    Failed,
    announce,
    finish,
    last_line,
    notice,
    print_json,
    progress,
    say,
)
from specsim.operations.derived.signature import nearest

if TYPE_CHECKING:
    from specsim.conformance.isolation.jobs import Limits
    from specsim.properties.matrix.extent import Extent
    from specsim.properties.matrix.factors import Cell
    from specsim.properties.matrix.run import MatrixRun, Result
    from specsim.properties.unit_of_work import BrokenUnit

LAYERS = {"reference": "specsim.reference", "gpu": OURS}
HISTORIES = Count(1, 1_000_000, "that is a day of one core for each cell; other seeds take the rest")
HISTORY = Count(0, 999_999, "a cell has no more histories than that")
REPLAYS = Count(0, 100_000, "each of them runs a whole history")
MOST_SHRUNK = 3
"""Cells whose first failure is made smaller: those that fail by the same cause are many."""

MOST_INTERPRETED = 4
"""Ways of a sampled request, those with the highest chance first, that a worker of interpreted kernels runs."""


@click.command(epilog=EXIT_CODES)
@click.argument("implementation", required=False, metavar="[IMPL]", shell_complete=complete_modules)
@click.option(
    "--profile",
    default="ci",
    show_default=True,
    type=click.Choice(["ci", "full"]),
    help="ci: every pair of values; full: every triple, with more histories.",
)
@click.option(
    "--layer", type=click.Choice(list(LAYERS)), help="Layer whose workers run, without IMPL.  [default: reference]"
)
@click.option("--histories", type=HISTORIES, help="Histories of each cell, in place of those of the profile.")
@click.option(
    "--cell",
    "cell_name",
    metavar="NAME",
    shell_complete=complete_cells,
    help="Run this cell alone, as a failure says.",
)
@click.option("--history", "number", type=HISTORY, help="Run this history of each cell alone, as a failure says.")
@click.option("--law", "is_law_alone", is_flag=True, help="Go through the law of each cell alone, as a failure says.")
@click.option(
    "--plan", "is_planned_only", is_flag=True, help="Estimate by a sample how much would run, and for how long."
)
@click.option("--seed", type=SEED, help="Reproduce a run; drawn afresh when absent.")
@click.option("--replays", default=100, show_default=True, type=REPLAYS, help="Tries to shorten a failing history.")
@click.option("--jobs", default=1, show_default=True, type=JOBS, help="Worker processes.")
@with_limits_of_calls
@with_ci_files
@with_report
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def matrix(
    implementation: str | None,
    profile: str,
    layer: str | None,
    histories: int | None,
    cell_name: str | None,
    number: int | None,
    is_law_alone: bool,
    is_planned_only: bool,
    seed: int | None,
    replays: int,
    jobs: int,
    limits: "Limits",
    as_json: bool,
    ci: CiFiles,
    page: ReportFile,
) -> None:
    """Run an engine around IMPL in every combination of its settings.

    IMPL is a module, named like an import; the combinations are those that the rules allow. A cell is a choice of
    worker, page size, topk, KV pool, overlap, chunking, prefix cache, algorithm, verify mode and acceptance rule. Each
    cell is fed with requests and checked after every step. For every algorithm, with chains and with trees, on every
    worker and page size, the exact distribution of a sampled output, over all of its coins, is compared with decoding
    token by token.

    IMPL's own WORKER, WORKER_V1 and WORKERS take the place of the reference's, in lockstep with them;
    without one, IMPL's operations run in the reference's loops. IMPL's DRAFTERS run in specsim's loops, in cells of
    their own, and are compared by outputs. IMPL runs in processes of its own: a history or a law whose process crashes
    or hangs fails, and the run goes on.
    """
    if implementation is not None and layer is not None and implementation != LAYERS[layer]:
        because = f"that is {LAYERS[layer]}, and IMPL is {implementation}"
        raise Failed(f"--layer is {layer}, but should be absent, because {because}", Exit.USAGE)
    if is_law_alone and number is not None:
        because = f"--history {number} asks for a history alone"
        raise Failed(f"--law is given, but should be absent, because {because}", Exit.USAGE)
    if is_planned_only and page.is_wanted:
        raise Failed("--report is for what was run, and --plan runs nothing", Exit.USAGE)
    name = implementation or LAYERS[layer or "reference"]
    notice(f"importing {name} …")
    need_suite()
    from specsim.properties.matrix.extent import measure_extent
    from specsim.properties.matrix.factors import all_cells
    from specsim.properties.matrix.laws import law_cells
    from specsim.properties.matrix.plan import PROFILES, Plan
    from specsim.properties.matrix.run import Laws, MatrixRun
    from specsim.properties.matrix.verdict import complaints, why_inconclusive

    device = choose_device_for(name)
    seed = secrets.randbelow(2**32) if seed is None else seed
    chosen = PROFILES[profile]
    if histories is not None:
        chosen = replace(chosen, num_histories=histories)
    numbers = range(0 if is_law_alone else chosen.num_histories) if number is None else [number]
    product = all_cells() if cell_name is None else [_find_cell(cell_name)]
    jobs = bounded_jobs(jobs)
    with engine_workers(name, jobs, limits) as supervisor, progress("matrix") as on_progress:
        run = MatrixRun(supervisor, name, modes_of(name, device), seed, limits)
        if not as_json:
            announce(f"{name}, profile {profile}, seed {seed}")
        plan = run.plan(chosen, product, is_whole=cell_name is None)
        if not isinstance(plan, Plan):
            raise Failed(f"{name} is asked what it runs: {plan.error}", Exit.FAILURE)
        is_part = cell_name is not None or number is not None or is_law_alone
        if not plan.cells and (is_part or is_planned_only or not plan.brings.workers):
            because = "; ".join(sorted({f"by the {one.by}: {one.because}" for one in plan.refused.values()}))
            raise Failed(f"{cell_name or 'every cell'} is refused {because}", Exit.NOTHING_SELECTED)
        laws = Laws(law_cells(plan.cells, plan.allowed) if number is None else (), most_seeded_of(name, device))
        if is_planned_only:
            extent = measure_extent(run, plan.cells, numbers, jobs, laws)
        else:
            result = run.run(plan.cells, numbers, laws, on_progress)
            shortest = _shorten(run, result, replays)
            finish_undisturbed()
    if is_planned_only:
        _print_extent(extent, as_json)
        return
    wrong = complaints(result)
    result.inconclusive_because += why_inconclusive(plan, result, is_part)
    report = Report(name, _layer_of(name), profile, plan, result, wrong, shortest, limits)
    counted = f"{len(result.cells)} cells, {result.num_histories:,} histories, seed {seed}"
    line = last_line(report.verdict, counted, result.inconclusive_because)
    document = {**matrix_document(report), **circumstances(line, device, seed)}
    if as_json:
        print_json(document)
    else:
        print_matrix(report)
        say(line)
    ci.write(
        Ended(f"specsim matrix {name}", report.verdict, line, tests_of(report), tuple(result.inconclusive_because))
    )
    page.write(document)
    finish(EXIT_OF_VERDICT[report.verdict], "; ".join([line, *wrong]))


def _print_extent(extent: "Extent", as_json: bool) -> None:
    """Print how much would run."""
    if as_json:
        print_json(vars(extent) | {"seconds": round(extent.seconds)})
    else:
        reported = f"{extent.num_cells} cells, {extent.num_histories:,} histories and {extent.num_laws} laws"
        say(f"{reported} would run, in about {extent.seconds:,.0f} seconds")


def modes_of(name: str, device: str) -> list[str]:
    """Return how the workers of an implementation run: ours with and without graphs, where there is a GPU."""
    from specsim.properties.matrix.subjects import AS_IT_IS, EAGER, GRAPHS

    if name != OURS:
        return [AS_IT_IS]
    return [EAGER] if device.endswith("interpreted") else [EAGER, GRAPHS]


def most_seeded_of(name: str, device: str) -> int | None:
    """Return how many ways of a request a worker runs by seeds: few where kernels are interpreted."""
    return MOST_INTERPRETED if name == OURS and device.endswith("interpreted") else None


def _layer_of(name: str) -> str:
    return next((layer for layer, module in LAYERS.items() if module == name), "IMPL")


def _find_cell(name: str) -> "Cell":
    """Return a cell of the product by its name.

    Raises
    ------
    Failed
        USAGE: there is none.
    """
    from specsim.properties.matrix.factors import all_cells, cell_named

    cell = cell_named(name)
    if cell is None:
        example = all_cells()[0].name
        near = nearest(name, [cell.name for cell in all_cells()]) or [example]
        because = f"such as {' or '.join(near)}; specsim list cells prints all of them"
        raise Failed(f"--cell is {name}, but should be a combination of all factors, {because}", Exit.USAGE)
    return cell


def _shorten(run: "MatrixRun", result: "Result", replays: int) -> "dict[Place, BrokenUnit]":
    """Return the first failure of some cells as the shortest history that was found to fail."""
    failing = [
        (one, number)
        for one in result.cells
        for number in sorted(one.failures, key=lambda number: one.failures[number].is_lost)[:1]
    ]
    shortest: dict[Place, BrokenUnit] = {}
    if result.is_interrupted or result.stopped:
        return shortest
    try:
        for one, number in failing[:MOST_SHRUNK]:
            found = run.shortest(one, number, replays)
            if found.lines:
                shortest[one.cell.name, one.mode, number] = found
    except KeyboardInterrupt:
        result.is_interrupted = True
    return shortest
