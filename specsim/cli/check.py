"""``specsim check``: the conformance suite against an implementation."""

import secrets
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specsim.cli import excluded, known, samplers
from specsim.cli.device import OURS, choose_device, load_implementation, need_suite
from specsim.cli.failures import Written, summarise, write_failures
from specsim.cli.output import EXIT_CODES, Exit, announce, console, finish, plain_table, print_json, progress
from specsim.conformance.catalogue import CATALOGUE, Kind, names_of

if TYPE_CHECKING:
    from specsim.properties.conformance.report import Failure, Report

EXIT_OF_VERDICT = {
    "conforms": Exit.CONFORMS,
    "fails": Exit.FAILURE,
    "inconclusive": Exit.INCONCLUSIVE,
    "nothing selected": Exit.NOTHING_SELECTED,
}


@click.command(epilog=EXIT_CODES)
@click.argument("implementation", default=OURS, metavar="[IMPL]")
@click.option("--seed", type=click.IntRange(0), help="Reproduce a run; drawn afresh when absent.")
@click.option("--examples", default=40, show_default=True, type=click.IntRange(1), help="Examples of each property.")
@click.option("--slow-examples", type=click.IntRange(1), help="Examples of each property that runs a whole engine.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option(
    "--operation",
    "operations",
    multiple=True,
    metavar="NAME",
    type=click.Choice(samplers.CHOICES),
    help="Check only this operation; repeatable.",
)
@click.option(
    "--models",
    "with_models",
    is_flag=True,
    help="Check the operations of the toy models too; an implementation with a worker or one of them gets them anyway.",
)
@excluded.strict_option
@known.known_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--cases-dir",
    default=Path("specsim-cases"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where failing cases are written.",
)
def check(
    implementation: str,
    seed: int | None,
    examples: int,
    slow_examples: int | None,
    jobs: int,
    operations: tuple[str, ...],
    with_models: bool,
    is_strict: bool,
    known_file: Path | None,
    known_to_write: Path | None,
    as_json: bool,
    cases_dir: Path,
) -> None:
    """Run the conformance suite against IMPL, a module named like an import (default: specsim.gpu).

    IMPL defines functions with the names and parameters of the operations, on NumPy arrays or, if it says
    ARRAYS = "torch", on tensors. What it does not define is reported as missing and does not count against it.
    """
    need_suite()
    # NOTE: stdout is for the report alone, whatever the implementation prints.
    with redirect_stdout(sys.stderr):
        backend = load_implementation(implementation)
    backend = backend.without_limits() if is_strict else backend
    operations = samplers.with_forms(operations, backend)
    entries = known.read(known_file, implementation)
    from specsim.properties.conformance import runner

    seed = secrets.randbelow(2**32) if seed is None else seed
    if not as_json:
        announce(f"{implementation} on {choose_device()}, seed {seed}")
    with progress("check") as on_progress, redirect_stdout(sys.stderr):
        report = runner.check(
            backend,
            seed=seed,
            max_examples=examples,
            operations=operations or None,
            slow_examples=slow_examples,
            jobs=jobs,
            with_models=with_models,
            on_progress=on_progress,
        )
    judged = known.judge(report, entries, backend)
    known.write(known_to_write, entries, judged, backend)
    report = judged.report
    brings_any = any(backend.has(name) for name in operations or CATALOGUE)
    is_nothing = not brings_any and (bool(operations) or not backend.has_worker)
    verdict = "nothing selected" if is_nothing else report.verdict
    with redirect_stdout(sys.stderr):
        written = write_failures(report, backend, cases_dir)
    if as_json:
        told = {
            "excluded": excluded.document(backend, report),
            "known": known.document(judged),
            "not_seen": samplers.unseen(backend, report),
        }
        print_json({**_document(report, verdict, written), **told})
    else:
        _print_report(report, written, examples)
        for line in (*excluded.lines(backend, report), *samplers.lines(backend, report), *known.lines(judged)):
            click.echo(line)
        click.echo(f"{verdict}: {report.examples:,} examples, seed {report.seed}")
    finish(EXIT_OF_VERDICT[verdict], summarise(report, verdict, written))


def _document(report: "Report", verdict: str, written: Written) -> dict[str, object]:
    return {
        "verdict": verdict,
        "implementation": report.implementation,
        "seed": report.seed,
        "examples": report.examples,
        "margin_cases": report.margin_cases,
        "operations": {
            name: {"examples": entry.examples, "failures": entry.failures, "missing": entry.missing}
            for name, entry in report.operations.items()
        },
        "properties": {
            name: {
                "examples": entry.examples,
                "failed": entry.failed,
                "missing": entry.missing,
                "margin_cases": entry.margin_cases,
                "inconclusive": entry.inconclusive,
                "reach": entry.reach,
            }
            for name, entry in report.properties.items()
        },
        "failures": [
            {
                "operation": failure.operation,
                "property": failure.property,
                "message": failure.message,
                "error": failure.error,
                "difference": difference,
                "case": None if path is None else str(path),
            }
            for failure, (path, difference) in zip(report.failures, written, strict=True)
        ],
    }


def _print_report(report: "Report", written: Written, examples: int) -> None:
    table = plain_table("operation", "group", "#examples", "#failures", "missing")
    for name, entry in report.operations.items():
        table.add_row(
            name, _group_of(name), f"{entry.examples:,}", str(entry.failures), "missing" if entry.missing else ""
        )
    console().print(table)
    for failure, (path, difference) in zip(report.failures, written, strict=True):
        click.echo(f"\nFAILURE of {failure.operation or 'a whole run'}: {failure.property}")
        click.echo(_indented(failure.message or failure.error))
        if failure.case is not None:
            click.echo("  smallest case:")
            for name, value in failure.case.items():
                click.echo(f"    {name} = {_short(value)}")
        if difference:
            click.echo(f"  first difference from the reference: {difference}")
        click.echo(f"  {_line_that_replays(failure, report, path, examples)}")
    for name, one in report.properties.items():
        if one.inconclusive:
            click.echo(f"\nINCONCLUSIVE: {name}")
            click.echo(_indented(one.inconclusive))
    unrun = sum(1 for entry in report.properties.values() if entry.missing)
    failed = sum(1 for entry in report.properties.values() if entry.failed)
    undecided = sum(1 for entry in report.properties.values() if entry.inconclusive and not entry.failed)
    untried = sum(1 for entry in report.properties.values() if not (entry.examples or entry.missing or entry.failed))
    held = len(report.properties) - unrun - failed - undecided - untried
    click.echo(f"\n{report.implementation} defines {_defined(report)}")
    left_out = f", {untried} got no example" if untried else ""
    click.echo(f"{held} properties held, {failed} failed, {unrun} need an operation that is missing{left_out}")
    reach = [count for entry in report.properties.values() for count in entry.reach.values()]
    if reach:
        click.echo(f"reach: {len(reach):,} classes, each at least {min(reach):,} times")
    click.echo(f"margin cases: {report.margin_cases:,} of {report.examples:,} examples")


def _defined(report: "Report") -> str:
    """Count what is defined, of the kinds that the report lists."""
    words = []
    for kind in (Kind.OPERATION, Kind.MODEL_OPERATION):
        listed = [report.operations[name] for name in names_of(kind) if name in report.operations]
        if listed or kind is Kind.OPERATION:
            words.append(f"{sum(not entry.missing for entry in listed)} of {len(listed)} {kind}s")
    samplers_there = len(report.operations.keys() & set(names_of(Kind.SAMPLER_WITHOUT_COINS)))
    words += [f"{samplers_there} samplers without coins"] if samplers_there else []
    of_the_host = len(report.operations.keys() & set(names_of(Kind.HOST_FUNCTION)))
    parts = len(report.operations.keys() & set(names_of(Kind.PART)))
    return f"{', '.join(words)}, {of_the_host} host functions and {parts} parts of an engine"


def _group_of(name: str) -> str:
    entry = CATALOGUE[name]
    return f"{entry.group} (host)" if entry.kind in (Kind.HOST_FUNCTION, Kind.PART) else entry.group


def _line_that_replays(failure: "Failure", report: "Report", path: Path | None, examples: int) -> str:
    if path is not None:
        return f"specsim replay {shlex.quote(str(path))}"
    only = f" --operation {failure.operation}" if failure.operation else ""
    return f"specsim check {report.implementation} --seed {report.seed} --examples {examples}{only}"


def _indented(message: str) -> str:
    return "\n".join(f"  {line}" for line in message.splitlines())


def _short(value: object, width: int = 400) -> str:
    if isinstance(value, list | tuple):
        words = f"{len(value)} arrays: " + "; ".join(_short(entry, width // 4) for entry in value)
    elif hasattr(value, "dtype") and hasattr(value, "tolist"):
        words = f"{value.dtype} {list(getattr(value, 'shape', ()))} {value.tolist()}"
    else:
        words = repr(value)
    return words if len(words) <= width else words[:width] + " …"
