"""``specsim soak``: the state machine over an engine, for as many steps as one likes.

With ``--exhaustive`` it is every history of a small engine, shortest first.
"""

import secrets
import shlex
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import click

from specsim.cli.ci_files import CiFiles, Ended, Outcome, ReportFile, Tried, with_ci_files, with_report
from specsim.cli.device import choose_device_for, load_implementation, need_suite
from specsim.cli.documents import FAILED, FailureRecord, PropertyRecord, circumstances, record_of, shared_document
from specsim.cli.interrupts import finish_undisturbed
from specsim.cli.isolation import bounded_jobs, engine_workers, with_limits_of_calls, words_of
from specsim.cli.names import JOBS, SEED, Count, complete_modules
from specsim.cli.output import (
    EXIT_CODES,
    EXIT_OF_VERDICT,
    Exit,
    Failed,
    announce,
    finish,
    last_line,
    notice,
    plain_table,
    print_json,
    print_table,
    progress,
    reasons_of,
    say,
    verdict_of,
)
from specsim.cli.ran import lines_of
from specsim.cli.scopes import explore_small_scopes, show_small_mutants

if TYPE_CHECKING:
    from specsim.conformance.isolation.jobs import Limits
    from specsim.properties.soak.run import Soak, Soaked
    from specsim.properties.unit_of_work import BrokenUnit

REFERENCE = "specsim.reference"
STEPS = Count(1, 100_000_000, "that is a week of one core; other seeds take the rest")
STATES = Count(1, 10_000_000, "what is known of so many fills a gigabyte")
SECONDS = Count(1, 86_400, "a scope that a day does not exhaust is not small")
MACHINE = Count(0, 100_000_000, "no run has more steps than that, and a machine takes at least one")
REPLAYS = Count(0, 100_000, "each of them runs a whole machine")
MACHINES, CONDITIONS = "machines", "conditions"
"""Properties of a soak: what holds after each step of a machine, and what all machines together have to reach."""


@click.command(epilog=EXIT_CODES)
@click.argument("implementation", default=REFERENCE, metavar="[IMPL]", shell_complete=complete_modules)
@click.option(
    "--steps", default=20_000, show_default=True, type=STEPS, help="Number of steps of all machines together."
)
@click.option("--seed", type=SEED, help="Reproduce a run; drawn afresh when absent.")
@click.option("--machine", "number", type=MACHINE, help="Run this machine of the seed alone, as a failure says.")
@click.option("--replays", default=400, show_default=True, type=REPLAYS, help="Tries to shorten a failing history.")
@click.option("--jobs", default=1, show_default=True, type=JOBS, help="Worker processes.")
@click.option("--exhaustive", is_flag=True, help="Explore every short history of small engines instead.")
@click.option(
    "--max-states",
    default=100_000,
    show_default=True,
    type=STATES,
    help="Limit on the states that --exhaustive visits.",
)
@click.option(
    "--max-seconds", default=3_600, show_default=True, type=SECONDS, help="Time limit of --exhaustive, in seconds."
)
@click.option("--mutants", is_flag=True, help="Show --exhaustive the mutants of memory and scheduling.")
@with_limits_of_calls
@with_ci_files
@with_report
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def soak(
    implementation: str,
    steps: int,
    seed: int | None,
    number: int | None,
    replays: int,
    jobs: int,
    exhaustive: bool,
    max_states: int,
    max_seconds: int,
    mutants: bool,
    limits: "Limits",
    as_json: bool,
    ci: CiFiles,
    page: ReportFile,
) -> None:
    """Drive an engine around IMPL with random steps and faults.

    IMPL is a module, named like an import; the engine is checked after each step. Machine after machine is built,
    fed with requests, stepped, disturbed and drained. IMPL's own WORKER takes the place of the reference's, in
    lockstep with it; without one, IMPL's operations run in the reference's loop. IMPL's DRAFTERS run in specsim's
    loops, and are compared by outputs. IMPL runs in processes of its own: a machine whose process crashes or hangs
    fails, and the run goes on.

    With --exhaustive, every history of two requests in a handful of slots is tried, shortest first, around the
    operations, parts and decisions of IMPL; no model runs.
    """
    notice(f"importing {implementation} …")
    need_suite()
    if exhaustive and ci.are_wanted:
        raise Failed("--junit and --summary are for runs of machines, and --exhaustive runs none", Exit.USAGE)
    if mutants and not exhaustive:
        raise Failed("--mutants needs --exhaustive: specsim mutants shows mutants to the properties", Exit.USAGE)
    if mutants and page.is_wanted:
        raise Failed("--report is for runs of an engine, and --mutants runs faults of one", Exit.USAGE)
    if mutants:
        show_small_mutants(as_json)
    if exhaustive:
        with redirect_stdout(sys.stderr):
            backend = load_implementation(implementation)
        explore_small_scopes(backend, max_states, max_seconds, as_json, page)
    from specsim.properties.soak.run import Soak
    from specsim.properties.soak.verdict import complaints, why_inconclusive

    device = choose_device_for(implementation)
    seed = secrets.randbelow(2**32) if seed is None else seed
    jobs = bounded_jobs(jobs)
    what = Soak(implementation, seed, limits)
    with engine_workers(implementation, jobs, limits) as supervisor, progress("soak") as on_progress:
        if not as_json:
            announce(f"{implementation}, seed {seed}")
        if number is not None:
            soaked = what.run_machine(supervisor, number)
        else:
            soaked = what.run(supervisor, steps, jobs, on_progress)
        shortest = what.shortest(supervisor, soaked, replays)
        finish_undisturbed()
    if number is None:
        wrong = complaints(soaked)
    else:
        wrong = [f"machine {number}: {failure.error}" for failure in soaked.failures.values()]
    soaked.inconclusive_because += why_inconclusive(soaked, is_part=number is not None)
    lines = {at: _replay_line(what, at) for at in soaked.failures}
    verdict = _verdict(soaked, wrong)
    line = last_line(verdict, f"{soaked.num_steps:,} steps, seed {seed}", soaked.inconclusive_because)
    document = {**_document(soaked, implementation, wrong, shortest, lines), **circumstances(line, device, seed)}
    if as_json:
        print_json(document)
    else:
        _print(soaked, wrong, shortest, lines)
        say(line)
    tests = _tests(soaked, wrong, shortest, lines)
    ci.write(Ended(f"specsim soak {implementation}", verdict, line, tests, tuple(soaked.inconclusive_because)))
    page.write(document)
    finish(EXIT_OF_VERDICT[verdict], "; ".join([line, *wrong]))


def _tests(
    soaked: "Soaked", wrong: list[str], shortest: dict[int, "BrokenUnit"], lines: dict[int, str]
) -> tuple[Tried, ...]:
    """Return a test for each machine that failed, one for the others, and one for what is wrong with all together."""
    tests = [Tried(MACHINES, "all", Outcome.PASSED)] if soaked.num_machines > len(soaked.failures) else []
    for number, failure in soaked.failures.items():
        history = shortest[number].lines if number in shortest else ()
        text = "\n".join([*history, f"replay: {lines[number]}"])
        tests.append(Tried(MACHINES, f"machine {number}", Outcome.FAILED, failure.error, text))
    together = _complaints_of_no_machine(soaked, wrong)
    if together:
        tests.append(Tried(MACHINES, "together", Outcome.FAILED, together[0], "\n".join(together)))
    return tuple(tests)


def _complaints_of_no_machine(soaked: "Soaked", wrong: list[str]) -> list[str]:
    """Return what is wrong beside the machines that failed."""
    machines = {f"machine {number}: {failure.error}" for number, failure in soaked.failures.items()}
    return [line for line in wrong if line not in machines]


def _verdict(soaked: "Soaked", wrong: list[str]) -> str:
    because = soaked.inconclusive_because
    return verdict_of(is_interrupted=soaked.is_interrupted, wrong=wrong, because=because)


def _document(
    soaked: "Soaked", implementation: str, wrong: list[str], shortest: dict[int, "BrokenUnit"], lines: dict[int, str]
) -> dict[str, object]:
    from specsim.properties.soak.tags import ENDS, MEANINGS, NOT_YET, OWN, REQUIRED, SOMETIMES, least_hits
    from specsim.properties.soak.verdict import not_required

    verdict = _verdict(soaked, wrong)
    failures = [
        record_of(MACHINES, failure.error, number, lines[number], shortest.get(number))
        for number, failure in soaked.failures.items()
    ]
    others = _complaints_of_no_machine(soaked, wrong)
    properties = {
        MACHINES: PropertyRecord(
            soaked.num_machines, bool(failures), soaked.seconds, min(soaked.failures, default=None), soaked.drafts
        ),
        CONDITIONS: PropertyRecord(soaked.num_machines, bool(others), 0.0),
    }
    records = [*failures, *(FailureRecord("", CONDITIONS, FAILED, line) for line in others)]
    return {
        **shared_document(verdict, records, properties),
        "inconclusive_because": reasons_of(verdict, soaked.inconclusive_because),
        "implementation": implementation,
        "seed": soaked.seed,
        "steps": soaked.num_steps,
        "machines": soaked.num_machines,
        "algorithms": dict(sorted(soaked.algorithms.items())),
        "ran": soaked.brings.ran(soaked.ran),
        "did_not_run": soaked.brings.did_not_run(soaked.ran),
        "failures": len(soaked.failures),
        "leaked_slots": soaked.num_leaked,
        "decode_iterations": soaked.num_decodes,
        "wide_decode_iterations": soaked.num_wide_decodes,
        "reach": {tag.value: soaked.reach[tag] for tag in REQUIRED},
        "events": {tag.value: soaked.reach[tag] for tag in OWN},
        "sometimes": {tag.value: soaked.reach[tag] for tag in SOMETIMES},
        "reused_after": {end: soaked.reused[end] for end in ENDS},
        "meanings": {tag.value: meaning for tag, meaning in MEANINGS.items()},
        "least": least_hits(soaked.num_steps),
        "not_required": NOT_YET | soaked.untried | not_required(soaked),
        "trace_hash": soaked.trace,
        "repeated": [vars(traces) for traces in soaked.repeated],
        "schedules": soaked.coverage.as_plain(),
        "seconds": round(soaked.seconds, 1),
        "rss_mib": [round(size, 1) for size in soaked.rss_mib],
        "complaints": wrong,
        "failed_machines": [
            {
                "machine": number,
                "error": failure.error,
                "replay": lines[number],
                "shortest": list(shortest[number].lines) if number in shortest else None,
            }
            for number, failure in soaked.failures.items()
        ],
    }


def _print(soaked: "Soaked", wrong: list[str], shortest: dict[int, "BrokenUnit"], lines: dict[int, str]) -> None:
    from specsim.properties.soak.tags import ENDS, FEWEST_JUDGED, MEANINGS, OWN, REQUIRED, SOMETIMES
    from specsim.properties.soak.verdict import not_required

    table = plain_table("condition", "#times", "meaning")
    for name, hits, meaning in (
        ("machines", soaked.num_machines, "engines that were built, run and drained"),
        ("decodes", soaked.num_decodes, "iterations that verified"),
        ("wide", soaked.num_wide_decodes, "decodes of four or more requests"),
        *((tag.value, soaked.reach[tag], MEANINGS[tag]) for tag in (*REQUIRED, *OWN, *SOMETIMES)),
        *((f"reused:{end}", soaked.reused[end], f"a row was used again after {word}") for end, word in ENDS.items()),
        *((name.lower(), number, f"machines of {name}") for name, number in sorted(soaked.algorithms.items())),
        ("leaked", soaked.num_leaked, "slots that nothing owns after a machine"),
    ):
        table.add_row(name, f"{hits:,}", meaning)
    print_table(table)
    if soaked.num_steps:
        say(f"at this speed 20,000 steps take {soaked.seconds * 20_000 / soaked.num_steps:.0f} seconds")
    if soaked.num_steps < FEWEST_JUDGED:
        say(f"in fewer than {FEWEST_JUDGED:,} steps no condition has to be reached")
    for line in (str(soaked.coverage), *map(str, soaked.repeated), f"trace hash {soaked.trace}"):
        say(line)
    for what, because in (soaked.untried | not_required(soaked)).items():
        say(f"not tried: {what}, because {because}")
    for line in lines_of(soaked.brings, soaked.ran):
        say(line)
    for line in wrong:
        say(f"FAILURE: {line}")
    for line in soaked.inconclusive_because:
        say(f"undecided: {line}")
    for number, failure in shortest.items():
        say(f"\nShortest history of machine {number}: {failure.error}")
        for line in failure.lines:
            say(f"  {line}")
    for line in lines.values():
        say(f"replay: {line}")


def _replay_line(what: "Soak", number: int) -> str:
    named = shlex.quote(what.implementation)
    return f"specsim soak {named} --seed {what.seed} --machine {number}{words_of(what.limits)}"
