"""``specsim bench``: latencies on the GPU at hand, refused while agreement is red."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

import click

from specsim.cli.device import OURS, choose_device, load_implementation, need_suite
from specsim.cli.isolation import begin_to_import, bounded_jobs, default_memory, prepare, workers
from specsim.cli.names import JOBS, Name, complete_modules
from specsim.cli.output import EXIT_CODES, Exit, Failed, finish, plain_table, print_json, print_table, progress, remark
from specsim.conformance.isolation.jobs import Limits
from specsim.conformance.isolation.process_limits import cores
from specsim.environment import INTERPRETER, says_yes
from specsim.operations import RECORDS

if TYPE_CHECKING:
    from specsim.conformance.backend import Backend
    from specsim.gpu.bench.every import Machine, Timed, Unmeasured
    from specsim.gpu.bench.operations import Latency
    from specsim.gpu.bench.targets import Compared
    from specsim.properties.conformance.report import Report

COLUMNS = ("operation", "shape", "median µs", "5 % to 95 %", "engines today µs", "host µs", "prepared µs")
COLUMNS_OF_ALL = ("operation", "shape", "median µs", "5 % to 95 %", "floor µs", "times floor", "launches")
COLUMNS_OF_A_PEER = ("peer µs", "peer / ours")
COLUMNS_OF_TARGETS = (
    *("operation", "shape", "target µs", "median µs", "5 % to 95 %", "times target", "share of floor", "launches"),
)
EXAMPLES, EXAMPLES_OF_ALL, MOST_JOBS = 200, 5, 8


@click.command(epilog=EXIT_CODES)
@click.option("--all", "measures_all", is_flag=True, help="Time every operation of the table beside its floor.")
@click.option(
    "--operation",
    "operations",
    multiple=True,
    metavar="NAME",
    type=Name("operation", lambda: RECORDS),
    help="Time only this one of --all; repeatable.",
)
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
@click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def bench(
    measures_all: bool,
    operations: tuple[str, ...],
    peer: str | None,
    batches: tuple[int, ...],
    profile: str | None,
    examples: int | None,
    seed: int,
    jobs: int | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Time operations on a GPU, once they agree with the reference.

    Operations are timed by CUDA-graph replay, and calls on the host.
    The last two columns are what an eager call costs on the host, and the part of it that allocates its outputs and
    starts its kernels with prepared arguments. ``python -m specsim.gpu.bench.host`` prints them for every operation.

    With --all every operation is timed at 1, 16, 64 and 256 requests, beside the least time that its inputs allow: a
    launch, or a copy of the bytes that they make necessary. --operation alone stands for --all of some.

    --peer names a module of functions that have the names and signatures of operations and take torch tensors. They are
    timed where their outputs agree with ours on the inputs of every row; alone it stands for all that the module has.
    """
    if profile is not None and (measures_all or operations or peer):
        raise Failed("--profile says what is timed, and --all, --operation and --peer say it too", Exit.USAGE)
    if batches and not (measures_all or operations or peer):
        raise Failed("--batch is for rows of --all, --operation or --peer, and there is none of them", Exit.USAGE)
    device = choose_device()
    if device == "absent" or "CPU" in device or says_yes(INTERPRETER):
        raise Failed(f"latencies are measured on a GPU, and the device here is {device}", Exit.UNAVAILABLE)
    need_suite()
    if measures_all or operations or peer:
        beside = None if peer is None else _load_peer(peer, operations)
        chosen = operations or tuple(name for name in RECORDS if measures_all or beside is None or beside.has(name))
        _require_memory(chosen, batches)
        _require_agreement(_check_isolated(chosen, seed, examples or EXAMPLES_OF_ALL, jobs), seed)
        _time_every(device, chosen, batches, beside, markdown, as_json)
    if profile is not None:
        _time_targets(device, seed, examples or EXAMPLES_OF_ALL, jobs, markdown, as_json)
    _time_known_shapes(device, seed, examples or EXAMPLES, markdown, as_json)


def _time_known_shapes(device: str, seed: int, examples: int, markdown: bool, as_json: bool) -> NoReturn:
    """Time the shapes for which figures of engines are known, and whole iterations."""
    backend = load_implementation(OURS)
    from specsim.gpu.bench import operations as benches
    from specsim.properties.conformance import runner

    cases = benches.operation_cases()
    measured = tuple(dict.fromkeys(case.operation for case in cases))
    with progress("agreement") as on_progress:
        report = runner.check(
            backend, seed=seed, max_examples=examples, operations=measured, slow_examples=1, on_progress=on_progress
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
    if as_json:
        print_json({"device": device, "latencies": [asdict(latency) for latency in latencies]})
    else:
        _print(device, COLUMNS, [_row(latency) for latency in latencies], markdown)
    figures = (f"{one.operation}, {one.shape}: {one.median_us:.1f} µs" for one in latencies)
    finish(Exit.CONFORMS, "; ".join(figures))


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
    """Refuse batches whose inputs alone are larger than the device; nothing is launched for that.

    Raises
    ------
    Failed
        USAGE: there is such a batch.
    """
    if not batches:
        return
    load_implementation(OURS)
    from specsim.gpu.bench import every

    most = every.device_bytes()
    for row, sizes in every.works_of(operations, [max(batches)]):
        needed = every.input_bytes(row, sizes)
        if needed > most:
            held = f"{needed / 1e9:,.1f} GB, but the device has {most / 1e9:,.1f} GB"
            raise Failed(f"inputs of {row.operation}, {every.shape_of(row, sizes)}, have {held}", Exit.USAGE)


def _check_isolated(operations: tuple[str, ...], seed: int, examples: int, jobs: int | None) -> "Report":
    """Compare some operations with the reference, several at a time."""
    begin_to_import()
    from specsim.properties.conformance.isolated import check_isolated
    from specsim.properties.conformance.wanted import Wanted

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


def _time_every(
    device: str,
    operations: tuple[str, ...],
    batches: tuple[int, ...],
    peer: "Backend | None",
    markdown: bool,
    as_json: bool,
) -> NoReturn:
    """Time the rows of some operations beside their floors, and a peer's functions beside them."""
    load_implementation(OURS)
    from specsim.gpu.bench import every

    works = every.works_of(operations, batches or every.BATCHES)
    machine = every.measure_machine()
    with progress("latency") as on_progress:
        measured = list(every.measure_every(machine, works, on_progress, peer))
    rows = [one for one in measured if isinstance(one, every.Timed)]
    if as_json:
        _print_document(device, machine, measured, [_document_of(row) for row in rows])
    else:
        columns = COLUMNS_OF_ALL if peer is None else (*COLUMNS_OF_ALL, *COLUMNS_OF_A_PEER)
        cells = [_row_of_all(row)[: len(columns)] for row in rows]
        _print(_floors_in_words(device, machine), columns, cells, markdown)
    _end(measured, len(rows))


def _time_targets(device: str, seed: int, examples: int, jobs: int | None, markdown: bool, as_json: bool) -> NoReturn:
    """Time the work for which targets stand."""
    load_implementation(OURS)
    from specsim.gpu.bench import every, targets

    operations = tuple(dict.fromkeys(target.operation for target in targets.TARGETS))
    _require_agreement(_check_isolated(operations, seed, examples, jobs), seed)
    machine = every.measure_machine()
    with progress("latency") as on_progress:
        measured = list(targets.measure_targets(machine, on_progress))
    rows = [one for one in measured if isinstance(one, targets.Compared)]
    if as_json:
        more = [{"times_target": row.times_target, "share_of_floor": row.share_of_floor} for row in rows]
        _print_document(
            device, machine, measured, [{**asdict(row), **added} for row, added in zip(rows, more, strict=True)]
        )
    else:
        _print(_floors_in_words(device, machine), COLUMNS_OF_TARGETS, [_row_of_target(row) for row in rows], markdown)
    _end(measured, len(rows))


def _print_document(device: str, machine: "Machine", measured: Sequence[Any], rows: list[dict[str, Any]]) -> None:
    unmeasured = [asdict(one) for one in _unmeasured(measured)]
    print_json({"device": device, **asdict(machine), "rows": rows, "unmeasured": unmeasured})


def _document_of(row: "Timed") -> dict[str, Any]:
    return {**asdict(row), "times_floor": row.times_floor, "peer_times_ours": row.peer_times_ours}


def _floors_in_words(device: str, machine: "Machine") -> str:
    copied = machine.copy_bandwidth / 1e12
    return f"{device}: a launch takes {machine.launch_us:.2f} µs at least, a copy has {copied:.2f} TB/s"


def _unmeasured(measured: Sequence[Any]) -> "list[Unmeasured]":
    from specsim.gpu.bench.every import Unmeasured

    return [one for one in measured if isinstance(one, Unmeasured)]


def _end(measured: Sequence[Any], num_rows: int) -> NoReturn:
    """End the command, as a failure where a row could not be timed."""
    unmeasured = _unmeasured(measured)
    for one in unmeasured:
        remark(f"{one.operation}, {one.shape}: {one.error}")
    if unmeasured:
        raise Failed(f"{num_rows} rows were timed, and {len(unmeasured)} could not be", Exit.FAILURE)
    finish(Exit.CONFORMS, f"{num_rows} rows were timed")


def _print(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]], markdown: bool) -> None:
    if markdown:
        click.echo("\n".join([_line(columns), _line(("---",) * len(columns)), *map(_line, rows)]))
        return
    table = plain_table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    print_table(table)


def _row_of_target(row: "Compared") -> tuple[str, ...]:
    spread = f"{row.low_us:.2f} to {row.high_us:.2f}"
    share = "-" if row.share_of_floor is None else f"{row.share_of_floor:.0%}"
    launches = "-" if row.num_launches is None else str(row.num_launches)
    launches += "" if row.target_launches is None else f" of {row.target_launches}"
    figures = (f"{row.median_us:.2f}", spread, f"{row.times_target:.2f}", share, launches)
    return row.operation, row.shape, f"{row.target_us:.1f}", *figures


def _row_of_all(row: "Timed") -> tuple[str, ...]:
    spread = f"{row.low_us:.2f} to {row.high_us:.2f}"
    figures = (f"{row.floor_us:.2f}", f"{row.times_floor:.2f}", str(row.num_launches))
    beside = ("-" if one is None else f"{one:.2f}" for one in (row.peer_us, row.peer_times_ours))
    return row.operation, row.shape, f"{row.median_us:.2f}", spread, *figures, *beside


def _row(latency: "Latency") -> tuple[str, ...]:
    spread = f"{latency.low_us:.1f} to {latency.high_us:.1f}"
    host = (_microseconds(latency.host_us), _microseconds(latency.prepared_us))
    return latency.operation, latency.shape, f"{latency.median_us:.1f}", spread, latency.engines_us, *host


def _microseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
