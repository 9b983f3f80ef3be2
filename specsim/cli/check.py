"""``specsim check``: the conformance suite against an implementation."""

import os
import secrets
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click
from packaging.version import Version

from specsim.cli.checking import excluded, exhaustive, known, samplers, unpromised
from specsim.cli.checking.report import (
    VERSIONS_IN_A_CASE,
    CaseFolder,
    conclude,
    document_of,
    in_one_line,
    print_report,
    summarise,
    tests_of,
)
from specsim.cli.ci_files import CiFiles, Ended, ReportFile, with_ci_files, with_report
from specsim.cli.device import OURS, need_suite
from specsim.cli.documents import circumstances
from specsim.cli.env import versions_with_python
from specsim.cli.interrupts import finish_undisturbed
from specsim.cli.isolation import (
    DEFAULT,
    PROFILES,
    SECONDS,
    SIZES,
    begin_to_import,
    bounded_jobs,
    options_of,
    prepare,
    with_command,
    with_limits,
    with_sizes,
    workers,
)
from specsim.cli.names import Name, complete_modules, complete_properties
from specsim.cli.output import EXIT_CODES, EXIT_OF_VERDICT, announce, finish, notice, print_json, progress, remark, say
from specsim.cli.ran import lines_of
from specsim.conformance.catalogue import CATALOGUE
from specsim.conformance.isolation.jobs import Limits
from specsim.conformance.isolation.process_limits import cores
from specsim.conformance.known import Subject
from specsim.environment import INTERPRETER
from specsim.operations import RECORDS

if TYPE_CHECKING:
    from specsim.properties.suite.conformance.report import Failure
    from specsim.properties.suite.conformance.wanted import Wanted


@click.command(epilog=EXIT_CODES)
@click.argument("implementation", required=False, metavar="[IMPL]", shell_complete=complete_modules)
@with_command
@click.option("--seed", type=click.IntRange(0), help="Reproduce a run; drawn afresh when absent.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    help="smoke: a minute on two cores; ci: a minute for each property; full: many examples, and no limit.",
)
@click.option("--examples", type=click.IntRange(1), help="Examples of each property.  [default: 40]")
@click.option("--slow-examples", type=click.IntRange(1), help="Examples of each property that runs a whole engine.")
@click.option("--jobs", type=click.IntRange(1), help="Number of worker processes.  [default: 1; of smoke, one a core]")
@click.option(
    "--operation",
    "operations",
    multiple=True,
    metavar="NAME",
    type=Name("operation", lambda: samplers.CHOICES),
    help="Check only this operation; repeatable.",
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_properties,
    help="Check only this property, as a failure names it.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    type=Name("operation", lambda: RECORDS),
    help="Take this operation away from IMPL, as after its second crash: whole runs get the reference's; repeatable.",
)
@click.option(
    "--models",
    "with_models",
    is_flag=True,
    help="Check the operations of the toy models too; an implementation with a worker or one of them gets them anyway.",
)
@exhaustive.exhaustive_option
@click.option(
    "--reach",
    "must_reach",
    is_flag=True,
    help="Print which rare situations the examples of each property met, and require all of them.",
)
@excluded.strict_option
@known.known_options
@with_limits
@click.option(
    "--budget", type=SECONDS, help="Time limit of the whole run, in seconds; every property gets its turn in it."
)
@with_sizes
@with_ci_files
@with_report
@click.option("--all", "lists_all", is_flag=True, help="List the operations that IMPL does not define, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--cases-dir",
    default=Path("specsim-cases"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that failing cases are written to.",
)
def check(
    implementation: str | None,
    seed: int | None,
    profile: str | None,
    examples: int | None,
    slow_examples: int | None,
    jobs: int | None,
    operations: tuple[str, ...],
    properties: tuple[str, ...],
    without: tuple[str, ...],
    with_models: bool,
    is_exhaustive: bool,
    must_reach: bool,
    is_strict: bool,
    known_file: Path | None,
    known_to_write: Path | None,
    by_cause: bool,
    limits: Limits,
    budget: float | None,
    most: dict[str, int],
    lists_all: bool,
    as_json: bool,
    cases_dir: Path,
    ci: CiFiles,
    page: ReportFile,
) -> None:
    """Run the conformance suite against IMPL, a module.

    IMPL is named like an import, specsim.gpu by default. It defines functions with the names and parameters of the
    operations, on NumPy arrays or, if it says ARRAYS = "torch", on tensors. What it does not define is reported as
    missing and does not count against it. It runs in processes of its own: a function that crashes,
    hangs or takes too much memory fails, and the run goes on. A program in any language is checked by --command.
    """
    implementation = implementation or OURS
    started, computed = time.monotonic(), time.process_time()
    notice(f"importing {implementation} …")
    need_suite()
    begin_to_import()
    from specsim.properties.suite.conformance.isolated import check_isolated
    from specsim.properties.suite.conformance.units import check_names
    from specsim.properties.suite.conformance.wanted import Wanted

    chosen = PROFILES[profile] if profile is not None else DEFAULT
    check_names(properties)
    nodes = exhaustive.nodes_of(is_exhaustive, most, {"--examples": examples, "--slow-examples": slow_examples})
    if nodes is not None:
        operations, properties = exhaustive.operations_of(operations, properties, nodes), ()
        most = {counted: size for counted, size in most.items() if counted != "nodes"}
    seed = secrets.randbelow(2**32) if seed is None else seed
    cases = CaseFolder(cases_dir)
    wanted = Wanted(
        seed=seed,
        max_examples=examples or chosen.examples,
        operations=operations or None,
        properties=properties or None,
        without=without,
        slow_examples=slow_examples or (None if examples else chosen.slow_examples),
        with_models=with_models,
        jobs=bounded_jobs(jobs or chosen.jobs or cores()),
        limits=replace(limits, job=limits.job or chosen.timeout),
        budget=budget or chosen.budget,
        versions=versions_with_python(VERSIONS_IN_A_CASE),
        is_strict=is_strict,
        most=most,
        nodes=nodes,
        must_reach=must_reach,
    )
    with workers(implementation, wanted.jobs, wanted.limits) as (supervisor, prepared):

        def spent() -> float:
            """Return the seconds that counted: on a busy machine less than those that have passed."""
            return min(time.monotonic() - started, time.process_time() - computed + supervisor.seconds)

        described = prepared.described
        if prepared.is_interpreted:
            os.environ.setdefault(INTERPRETER, "1")
        subject = Subject(Version(prepared.version) if prepared.version else None, prepared.uses_gpu)
        entries = known.read(known_file, subject)
        operations = samplers.with_forms(operations, described)
        if nodes is not None:
            exhaustive.require_any(described, operations, nodes)
        if not as_json:
            announce(f"{implementation} on {prepared.device}, seed {seed}")
        for line in prepared.remarks:
            remark(line) if as_json else say(line)
        wanted = replace(wanted, operations=operations or None, spent=spent())

        def on_failure(failure: "Failure") -> None:
            line = in_one_line(failure, cases.keep(failure), known.expects(entries, failure, subject))
            if as_json:
                remark(line)
            else:
                say(line)

        with progress("check") as on_progress:
            report = check_isolated(supervisor, wanted, prepared, prepare, on_failure, on_progress)
            finish_undisturbed()
    judged = known.judge(report, entries, subject)
    known.write(known_to_write, entries, judged, subject, by_cause=by_cause)
    report = judged.report
    brings_any = any(described.has(name) for name in operations or CATALOGUE)
    is_nothing = not brings_any and (bool(operations) or not described.makes)
    verdict = "nothing selected" if is_nothing else report.verdict
    declared = wanted.limits_of(prepared)
    seconds = 0.0 if verdict == "interrupted" else wanted.seconds_left(spent())
    tried = cache(lambda: excluded.beyond(declared, report.implementation, operations, seconds))
    if as_json or page.is_wanted:
        reported = {
            **circumstances(conclude(report, verdict), prepared.device, seed),
            "version": prepared.version or None,
            "remarks": list(prepared.remarks),
            "excluded": excluded.document(declared, report, tried),
            "exhaustive": exhaustive.document(report, nodes),
            "known": known.document(judged),
            "not_seen": samplers.unseen(described, report),
            "unpromised": unpromised.document(report),
        }
        document = {**document_of(report, verdict, cases, _options(wanted, limits), judged.complaints), **reported}
    if as_json:
        print_json(document)
    else:
        print_report(report, cases, _options(wanted, limits), lists_all=lists_all)
        for line in (
            *exhaustive.lines(report, nodes),
            *excluded.lines(declared, report, tried),
            *samplers.lines(described, report),
            *lines_of(replace(report.brings, functions=()), report.ran),
            *unpromised.lines(report),
            *known.lines(judged),
        ):
            say(line)
        say(conclude(report, verdict))
    if ci.are_wanted:
        line, tests = conclude(report, verdict), tests_of(report, cases, _options(wanted, limits), described, judged)
        ci.write(Ended(f"specsim check {implementation}", verdict, line, tests, report.inconclusive_because))
    if page.is_wanted:
        page.write(document)
    finish(EXIT_OF_VERDICT[verdict], summarise(report, verdict, cases))


def _options(wanted: "Wanted", limits: Limits) -> str:
    """Return the options that decide what examples a property gets and who fails on them, as a user types them."""
    drawn = {"examples": wanted.max_examples, "slow-examples": wanted.slow_examples}
    given = {
        **(drawn if wanted.nodes is None else {"max-nodes": wanted.nodes}),
        "budget": wanted.budget,
        **options_of(replace(limits, job=wanted.limits.job)),
        **{f"max-{name}": wanted.most[counted] for name, counted in SIZES.items() if counted in wanted.most},
    }
    words = [f"--{name} {value}" for name, value in given.items() if value is not None]
    words += ["--exhaustive"] * (wanted.nodes is not None)
    words += ["--models"] * wanted.with_models + ["--strict"] * wanted.is_strict + ["--reach"] * wanted.must_reach
    return " ".join([*words, *(f"--operation {name}" for name in wanted.operations or ())])
