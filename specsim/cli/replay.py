"""``specsim replay``: run saved cases again, in processes that may die."""

from pathlib import Path

import click

from specsim.cli.device import load_implementation, need_suite
from specsim.cli.isolation import replay_workers, with_limits
from specsim.cli.observed import replay_observed
from specsim.cli.output import EXIT_CODES, Exit, Failed, finish, print_json
from specsim.conformance.backend import Backend
from specsim.conformance.cases import Case, Replay, read_case, replay_case
from specsim.conformance.isolation.jobs import Fate, Job, Limits, Lost, Skipped
from specsim.conformance.isolation.supervisor import Supervisor
from specsim.conformance.outcomes import first_line

REPLAY = "specsim.cli.replay:replay_in_worker"
OF_FATE = {
    Fate.CRASHED: Replay.CRASHED,
    Fate.RAISED: Replay.CRASHED,
    Fate.TIMED_OUT: Replay.TIMED_OUT,
    Fate.CUT: Replay.TIMED_OUT,
}
UNAVAILABLE = "UNAVAILABLE"
MISSING = "MISSING"


@click.command(epilog=EXIT_CODES)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False), metavar="PATH...")
@click.option("--impl", "implementation", metavar="MODULE", help="Replay against this module instead of the recorded.")
@click.option("--observed", is_flag=True, help="Compare what was recorded with the reference; run no implementation.")
@with_limits
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def replay(paths: tuple[Path, ...], implementation: str | None, observed: bool, limits: Limits, as_json: bool) -> None:
    """Run saved cases again: + FIXED, x FAILED as recorded, ~ CHANGED, ! CRASHED, ! TIMED OUT.

    A case is first compared with the arrays that it expects, then handed to the property that found it.
    """
    if observed:
        replay_observed(paths, implementation, as_json)
    need_suite()
    cases = [(path, read_case(path)) for path in paths]
    lines, is_missing = [], False
    with replay_workers() as supervisor:
        for path, case in cases:
            told, words = _outcome_of(supervisor, path, case, implementation, limits)
            outcome, is_missing = (Replay.CRASHED, True) if told == MISSING else (Replay[told], is_missing)
            lines.append({"path": str(path), "outcome": outcome.name, "difference": words})
            if not as_json:
                click.echo(f"{outcome.value:9} {path}  {case.property_name}" + (f"\n    {words}" if words else ""))
    if as_json:
        print_json({"cases": lines})
    outcomes = {line["outcome"] for line in lines}
    summary = "; ".join(f"{line['outcome']} {line['path']}" for line in lines)
    is_fixed = outcomes == {Replay.FIXED.name}
    finish(Exit.UNAVAILABLE if is_missing else Exit.CONFORMS if is_fixed else Exit.FAILURE, summary)


def replay_in_worker(path: str, implementation: str) -> tuple[str, str]:
    """Run a case here; return the name of what became of it, or UNAVAILABLE, or MISSING, and words."""
    try:
        backend = load_implementation(implementation)
    except Failed as failed:
        return UNAVAILABLE, str(failed)
    case = read_case(Path(path))
    if not backend.has(case.operation):
        return MISSING, f"{backend.name} does not define {case.operation}"
    outcome, words = _replay(backend, case)
    return outcome.name, words


def _outcome_of(
    supervisor: Supervisor, path: Path, case: Case, implementation: str | None, limits: Limits
) -> tuple[str, str]:
    """Run a case in a worker; whoever dies or hangs before anything is called cannot be started.

    Returns
    -------
    outcome, words : str
        The name of what became of it, or MISSING, and what there is to say.

    Raises
    ------
    Failed
        UNAVAILABLE.
    """
    name = implementation or case.provenance.implementation
    supervisor.submit(Job((str(path), 0), REPLAY, (str(path), name), limits))
    (event,) = supervisor.events()
    if isinstance(event, Lost):
        if event.call is None:
            raise Failed(f"{name} does not import: {event.words}", Exit.UNAVAILABLE)
        return OF_FATE[event.fate].name, event.words
    outcome, words = event.answer if not isinstance(event, Skipped) else (UNAVAILABLE, event.words)
    if outcome == UNAVAILABLE:
        raise Failed(words, Exit.UNAVAILABLE)
    return str(outcome), str(words)


def _replay(backend: Backend, case: Case) -> tuple[Replay, str]:
    from specsim.properties.generated.margin_cases import difference_beyond_margins

    with backend.arrays.debugging():
        outcome, words = replay_case(backend, case, difference_beyond_margins)
        if outcome is not Replay.FIXED:
            return outcome, words
        return _replay_property(backend, case)


def _replay_property(backend: Backend, case: Case) -> tuple[Replay, str]:
    """Run the law that found the case: it may look at more than the outputs of one plain call."""
    from specsim.properties.catalogue import all_properties
    from specsim.properties.conformance.law_cases import given_to
    from specsim.properties.conformance.plain_cases import NotPlain

    for found in all_properties():
        if found.name != case.property_name:
            continue
        try:
            found.law(backend, dict(case.arguments) if case.law is None else given_to(found, case.law))
        except NotPlain as error:
            return Replay.CRASHED, f"what {found.name} was given does not fit it: {error}"
        except AssertionError as broken:
            same = first_line(broken) in case.message
            return (Replay.FAILED if same else Replay.CHANGED), first_line(broken)
        except Exception as error:  # NOTE: an implementation under test may raise anything at all.
            return Replay.CRASHED, f"{type(error).__name__}: {first_line(error)}"
    return Replay.FIXED, ""
