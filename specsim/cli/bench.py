"""``specsim bench``: latencies on the GPU at hand, refused while agreement is red."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specsim.cli.benching.baseline import TOLERANCE, open_to_save, read_baseline, versions_here
from specsim.cli.benching.costs import with_costs
from specsim.cli.benching.latencies import OF_A_PEER, OF_ALL, OF_KNOWN_SHAPES, OF_TARGETS, Column, Timings, gather
from specsim.cli.ci_files import PATH, ReportFile, with_report
from specsim.cli.device import OURS, choose_device, load_implementation, need_suite
from specsim.cli.documents import circumstances
from specsim.cli.isolation import begin_to_import, bounded_jobs, default_memory, prepare, workers
from specsim.cli.names import JOBS, Name, complete_modules
from specsim.cli.output import EXIT_CODES, Exit, Failed, progress, remark
from specsim.conformance.isolation.jobs import Limits
from specsim.conformance.isolation.process_limits import cores
from specsim.environment import INTERPRETER, says_yes
from specsim.installation import explain_missing, find_missing
from specsim.operations import RECORDS

if TYPE_CHECKING:
    from specsim.conformance.backend import Backend
    from specsim.gpu.bench.every import Machine, Work
    from specsim.gpu.bench.growth import Growth
    from specsim.gpu.bench.iteration import EngineSizes
    from specsim.properties.suite.conformance.report import Report

AXES = ("batch", "nodes", "topk", "vocab", "length")
FOLDER = click.Path(path_type=Path, file_okay=False)
EXAMPLES, EXAMPLES_OF_ALL, MOST_JOBS = 200, 5, 8


@click.command(epilog=EXIT_CODES)
@with_costs
@click.option("--all", "measures_all", is_flag=True, help="Time every operation of the table beside its floor.")
@click.option(
    "--operation",
    "operations",
    multiple=True,
    metavar="NAME",
    type=Name("operation", lambda: RECORDS),
    help="Time only this one of --all; repeatable.",
)
@click.option("--iteration", "times_iteration", is_flag=True, help="Time whole decode iterations, as one of --all.")
@click.option(
    "--peer",
    metavar="MODULE",
    shell_complete=complete_modules,
    help="Time what this module defines, or what is chosen of it, beside ours on the same inputs.",
)
@click.option(
    "--batch",
    "batches",
    multiple=True,
    type=click.IntRange(1),
    help="Requests of a row of --all, --operation or --peer; repeatable.  [default: 1, 16, 64 and 256]",
)
@click.option(
    "--grow",
    "axes",
    multiple=True,
    type=click.Choice(AXES),
    help="Time rows at several sizes of this axis, where they have it; repeatable.",
)
@click.option("--plot", type=FOLDER, metavar="FOLDER", help="Draw what --grow measures, as PNG and SVG files.")
@click.option(
    "--profile", type=click.Choice(["targets"]), help="targets: time the work for which targets stand beside them."
)
@click.option(
    "--examples",
    type=click.IntRange(1),
    help=f"Examples of the check that runs first.  [default: {EXAMPLES}; with --all or --profile {EXAMPLES_OF_ALL}]",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the check that runs first.")
@click.option(
    "--jobs",
    type=JOBS,
    help=f"Processes of the check before --all or --profile.  [default: one a core, at most {MOST_JOBS}]",
)
@click.option("--save", type=PATH, metavar="FILE", help="Write the JSON document, as a baseline of later runs.")
@click.option("--baseline", "saved", type=PATH, metavar="FILE", help="Show medians as multiples of those in this file.")
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    help=f"Share by which a median may exceed that of the baseline.  [default: {TOLERANCE}]",
)
@with_report
@click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def bench(
    measures_all: bool,
    operations: tuple[str, ...],
    times_iteration: bool,
    peer: str | None,
    batches: tuple[int, ...],
    axes: tuple[str, ...],
    plot: Path | None,
    profile: str | None,
    examples: int | None,
    seed: int,
    jobs: int | None,
    save: Path | None,
    saved: Path | None,
    tolerance: float | None,
    markdown: bool,
    as_json: bool,
    page: ReportFile,
) -> None:
    """Time operations on a GPU, once they agree with the reference.

    Operations are timed by CUDA-graph replay, and calls on the host.
    The last two columns are what an eager call costs on the host, and the part of it that allocates its outputs and
    starts its kernels with prepared arguments. ``python -m specsim.gpu.bench.host`` prints them for every operation.

    With --all every operation is timed at 1, 16, 64 and 256 requests, beside the least time that its inputs allow: a
    launch, or a copy of the bytes that they make necessary. --operation alone stands for --all of some.

    --peer names a module of functions that have the names and signatures of operations and take torch tensors. They are
    timed where their outputs agree with ours on the inputs of every row; alone it stands for all that the module has.

    --grow times each operation at several sizes of an axis: 1 to 1,024 requests, 4 to 256 nodes, topk 1 to 16, a
    vocabulary of 32,000 to 262,144, a length of 1,024 to 131,072. Other sizes stay, 64 requests among them.
    """
    chooses_rows = measures_all or times_iteration or bool(operations or axes) or (peer is not None and profile is None)
    if profile is not None and chooses_rows:
        raise Failed("--profile says what is timed, as --all, --operation, --iteration and --grow do", Exit.USAGE)
    if axes and batches:
        raise Failed("--grow says at which sizes rows are timed, and --batch says it too", Exit.USAGE)
    if batches and not chooses_rows:
        raise Failed("--batch is for rows of --all, --operation, --iteration or --peer, and there are none", Exit.USAGE)
    if tolerance is not None and saved is None:
        raise Failed("--tolerance is that of --baseline, and there is none", Exit.USAGE)
    baseline = None if saved is None else read_baseline(saved)
    if save is not None:
        open_to_save(save)
    if plot is not None:
        _require_plots(plot, axes)
    device = choose_device()
    if device == "absent" or "CPU" in device or says_yes(INTERPRETER):
        raise Failed(f"latencies are measured on a GPU, and the device here is {device}", Exit.UNAVAILABLE)
    need_suite()
    beside = None if peer is None else _load_peer(peer, operations)
    load_implementation(OURS)
    if chooses_rows:
        if not operations and (measures_all or not times_iteration or beside is not None):
            operations = tuple(name for name in RECORDS if measures_all or beside is None or beside.has(name))
        rows = _choose(operations, times_iteration, batches, axes)
        _require_agreement(_check_isolated(rows.checked, seed, examples or EXAMPLES_OF_ALL, jobs), seed)
        timings = _time_rows(device, rows, beside)
    elif profile is not None:
        from specsim.gpu.bench.targets import TARGETS

        chosen = tuple(dict.fromkeys(target.operation for target in TARGETS))
        _require_agreement(_check_isolated(chosen, seed, examples or EXAMPLES_OF_ALL, jobs), seed)
        timings = _time_targets(device, beside)
    else:
        timings = _time_known_shapes(device, seed, examples or EXAMPLES)
    if baseline is not None:
        timings = timings.beside(baseline)
        differs = baseline.what_differs(device, versions_here())
        if differs:
            remark(f"{saved} was measured otherwise: {differs}")
    conclusion = timings.conclude(baseline, TOLERANCE if tolerance is None else tolerance)
    reported = {"verdict": conclusion.verdict, "reasons": list(conclusion.reasons), "seed": seed}
    about = {**circumstances(conclusion.line, device, seed), **reported, **timings.about}
    timings = replace(timings, about=about)
    if save is not None:
        timings.save(save)
    if plot is not None and timings.is_interrupted:
        remark(f"--plot {plot}: sizes are missing after an interrupt; it is not drawn")
    elif plot is not None:
        _draw(timings.document, plot)
    timings.give(markdown, as_json)
    page.write(timings.document)
    conclusion.end()


def _time_known_shapes(device: str, seed: int, examples: int) -> Timings:
    """Time the shapes for which figures of engines are known, and whole iterations."""
    from specsim.gpu.bench import operations as benches
    from specsim.properties.suite.conformance import runner

    cases = benches.operation_cases()
    measured = tuple(dict.fromkeys(case.operation for case in cases))
    with progress("agreement") as on_progress:
        report = runner.check(
            load_implementation(OURS),
            seed=seed,
            max_examples=examples,
            operations=measured,
            slow_examples=1,
            on_progress=on_progress,
        )
    _require_agreement(report, seed)
    latencies = []
    with progress("latency") as on_progress:
        for done, case in enumerate(cases):
            if on_progress is not None:
                on_progress(f"{case.operation}, {case.shape}", done, len(cases) + 1)
            latencies.append(benches.measure(case))
        latencies += benches.measure_iterations()
        latencies += benches.measure_compositions()
    return Timings(_about(device), device, OF_KNOWN_SHAPES, list(map(asdict, latencies)), key="latencies")


@dataclass(frozen=True)
class _Chosen:
    """What is timed: operations on inputs, and iterations of some sizes; ``growths`` are the rows of each axis."""

    works: "list[Work]"
    iterations: "list[EngineSizes]"
    growths: "list[Growth]"

    @property
    def checked(self) -> tuple[str, ...]:
        """The operations that have to agree with the reference: an iteration runs any of them."""
        return tuple(RECORDS) if self.iterations else tuple(dict.fromkeys(work.operation for work in self.works))


def _choose(
    operations: tuple[str, ...], times_iteration: bool, batches: tuple[int, ...], axes: tuple[str, ...]
) -> _Chosen:
    """Return rows of some operations, and iterations, at some batches or along some axes.

    Raises
    ------
    Failed
        USAGE: a batch needs more memory than there is, or nothing that is chosen has an axis.
    """
    from specsim.gpu.bench import every, growth, whole
    from specsim.gpu.bench.decode import ITERATION
    from specsim.gpu.bench.iteration import EngineSizes

    if not axes:
        _require_memory(operations, batches)
        works = every.works_of(operations, batches or every.BATCHES) if operations else []
        sizes = [EngineSizes(batch) for batch in batches or every.BATCHES] if times_iteration else []
        return _Chosen(works, sizes, [])
    growths: list[Growth] = []
    for axis in axes:
        along = list(growth.growths_of(axis, operations)) if operations else []
        along += whole.iteration_along(axis) if times_iteration else []
        if not along:
            names = [*operations, *[ITERATION] * times_iteration]
            raise Failed(f"--grow {axis}: no size of it changes {' or '.join(names)}", Exit.USAGE)
        growths += along
    of_operations = [one for one in growths if one.operation in RECORDS]
    return _Chosen(growth.works_along(of_operations), whole.sizes_of(growths), growths)


def _require_plots(folder: Path, axes: tuple[str, ...]) -> None:
    """Check that figures can be drawn and written, before anything is run.

    Raises
    ------
    Failed
        USAGE: there is nothing to draw, or no such folder; UNAVAILABLE: matplotlib is missing.
    """
    if not axes:
        raise Failed("--plot draws what --grow measures, and there is none", Exit.USAGE)
    if find_missing("plots"):
        raise Failed(explain_missing("plots", "--plot"), Exit.UNAVAILABLE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failed(f"--plot {folder}: {error.strerror}", Exit.USAGE) from error


def _draw(document: dict[str, Any], folder: Path) -> None:
    from specsim.cli.benching import plots

    try:
        plots.draw(document, folder)
    except OSError as error:
        remark(f"--plot {folder}: {error.strerror}; it is not drawn")


def _time_rows(device: str, chosen: _Chosen, peer: "Backend | None") -> Timings:
    """Time rows beside their floors, and a peer's functions beside them, then iterations."""
    from specsim.gpu.bench import every, whole

    machine = every.measure_machine()
    with progress("latency") as on_progress:
        of_operations = every.measure_every(machine, chosen.works, on_progress, peer)
        of_all = chain(of_operations, whole.measure_whole(chosen.iterations, on_progress))
        measured, is_interrupted = gather(of_all)
    timings = _beside_floors(device, machine, measured, OF_ALL, ("times_floor", "peer_times_ours"), peer)
    growth = {"growth": list(map(asdict, chosen.growths))} if chosen.growths else {}
    return replace(timings, about={**timings.about, **growth}, is_interrupted=is_interrupted)


def _time_targets(device: str, peer: "Backend | None") -> Timings:
    """Time the work for which targets stand, and a peer's functions beside it."""
    from specsim.gpu.bench import every, targets

    machine = every.measure_machine()
    with progress("latency") as on_progress:
        measured, is_interrupted = gather(targets.measure_targets(machine, on_progress, peer))
    more = ("times_target", "share_of_floor", "peer_times_ours")
    timings = _beside_floors(device, machine, measured, OF_TARGETS, more, peer)
    return replace(timings, is_interrupted=is_interrupted)


def _beside_floors(
    device: str,
    machine: "Machine",
    measured: Sequence[Any],
    columns: Sequence[Column],
    more: Sequence[str],
    peer: "Backend | None",
) -> Timings:
    """Return what was measured, with some properties of each row, and what could not be."""
    from specsim.gpu.bench.every import Unmeasured

    rows, unmeasured = [], []
    for one in measured:
        if isinstance(one, Unmeasured):
            unmeasured.append(asdict(one))
        else:
            rows.append({**asdict(one), **{name: getattr(one, name) for name in more}})
    copied = machine.copy_bandwidth / 1e12
    title = f"{device}: a launch takes {machine.launch_us:.2f} µs at least, a copy has {copied:.2f} TB/s"
    about = {**_about(device), **asdict(machine)}
    return Timings(about, title, columns if peer is None else (*columns, *OF_A_PEER), rows, unmeasured)


def _about(device: str) -> dict[str, Any]:
    return {"device": device, "versions": versions_here()}


def _load_peer(name: str, operations: tuple[str, ...]) -> "Backend":
    """Import a module whose operations, among them those that are chosen, are timed beside ours.

    Raises
    ------
    Failed
        UNAVAILABLE: it does not import; USAGE: it lacks an operation, or has none, or takes no torch tensors.
    """
    peer = load_implementation(name)
    if not any(map(peer.has, RECORDS)):
        raise Failed(f"--peer: {name} defines no operation of the table", Exit.USAGE)
    lacking = [operation for operation in operations if not peer.has(operation)]
    if lacking:
        raise Failed(f"--peer: {name} does not define {' and '.join(lacking)}", Exit.USAGE)
    if peer.arrays.KIND != "torch":
        why = "because operations are timed on the GPU"
        raise Failed(f'--peer: {name}.ARRAYS is {peer.arrays.KIND!r}, but should be "torch", {why}', Exit.USAGE)
    return peer


def _require_memory(operations: tuple[str, ...], batches: tuple[int, ...]) -> None:
    """Refuse batches that need more memory than is free; nothing is compiled for that.

    Raises
    ------
    Failed
        USAGE: there is such a batch.
    """
    if not batches or not operations:
        return
    from specsim.gpu.bench import every
    from specsim.gpu.bench.iteration import EngineSizes

    sizes, most = EngineSizes(max(batches)), every.free_memory()
    for row in every.rows_of(operations):
        needed = every.memory_of(row, sizes)
        if needed > most:
            free = f"but {most / 1e9:,.1f} GB are free"
            what = f"{row.operation}, {every.shape_of(sizes, row.kind)}"
            raise Failed(f"{what}, needs {needed / 1e9:,.1f} GB of the device, {free}", Exit.USAGE)


def _check_isolated(operations: tuple[str, ...], seed: int, examples: int, jobs: int | None) -> "Report":
    """Compare some operations with the reference, several at a time."""
    begin_to_import()
    from specsim.properties.suite.conformance.isolated import check_isolated
    from specsim.properties.suite.conformance.wanted import Wanted

    wanted = Wanted(
        seed=seed,
        max_examples=examples,
        properties=tuple(f"agreement.{name}" for name in operations),
        jobs=bounded_jobs(jobs or min(cores(), MOST_JOBS)),
        limits=Limits(memory=default_memory()),
    )
    with workers(OURS, wanted.jobs, wanted.limits) as (supervisor, prepared), progress("agreement") as on_progress:
        return check_isolated(supervisor, wanted, prepared, prepare, lambda failure: None, on_progress)


def _require_agreement(report: "Report", seed: int) -> None:
    if report.verdict != "conforms":
        for failure in report.failures:
            remark(f"{failure.operation}: {failure.property}: {failure.message}")
        raise Failed(f"no latencies: specsim check says {report.verdict}, seed {seed}", Exit.FAILURE)
