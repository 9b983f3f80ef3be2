"""``specsim replay``: run saved cases again."""

from pathlib import Path

import click

from specsim.cli.device import load_implementation, need_suite
from specsim.cli.observed import replay_observed
from specsim.cli.output import EXIT_CODES, Exit, finish, print_json
from specsim.conformance.backend import Backend
from specsim.conformance.cases import Case, Replay, read_case, replay_case
from specsim.conformance.outcomes import first_line


@click.command(epilog=EXIT_CODES)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False), metavar="PATH...")
@click.option("--impl", "implementation", metavar="MODULE", help="Replay against this module instead of the recorded.")
@click.option("--observed", is_flag=True, help="Compare what was recorded with the reference; run no implementation.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def replay(paths: tuple[Path, ...], implementation: str | None, observed: bool, as_json: bool) -> None:
    """Run saved cases again: + FIXED, x FAILED as recorded, ~ CHANGED, ! CRASHED.

    A case is first compared with the arrays that it expects, then handed to the property that found it.
    """
    if observed:
        replay_observed(paths, implementation, as_json)
    cases = [(path, read_case(path)) for path in paths]
    lines = []
    for path, case in cases:
        backend = load_implementation(implementation or case.provenance.implementation)
        outcome, words = _replay(backend, case)
        lines.append({"path": str(path), "outcome": outcome.name, "difference": words})
        if not as_json:
            click.echo(
                f"{outcome.value} {outcome.name:7} {path}  {case.property_name}" + (f"\n    {words}" if words else "")
            )
    if as_json:
        print_json({"cases": lines})
    outcomes = {line["outcome"] for line in lines}
    summary = "; ".join(f"{line['outcome']} {line['path']}" for line in lines)
    if Replay.CRASHED.name in outcomes:
        finish(Exit.UNAVAILABLE, summary)
    finish(Exit.CONFORMS if outcomes == {Replay.FIXED.name} else Exit.FAILURE, summary)


def _replay(backend: Backend, case: Case) -> tuple[Replay, str]:
    if not backend.has(case.operation):
        return Replay.CRASHED, f"{backend.name} does not define {case.operation}"
    need_suite()
    from specsim.properties.generated.margin_cases import difference_beyond_margins

    with backend.arrays.debugging():
        outcome, words = replay_case(backend, case, difference_beyond_margins)
        if outcome is not Replay.FIXED:
            return outcome, words
        return _replay_property(backend, case)


def _replay_property(backend: Backend, case: Case) -> tuple[Replay, str]:
    """Run the law that found the case: it may look at more than the outputs of one plain call."""
    need_suite()
    from specsim.properties.catalogue import all_properties

    for found in all_properties():
        if found.name != case.property_name:
            continue
        try:
            found.law(backend, dict(case.arguments))
        except AssertionError as broken:
            same = first_line(broken) in case.message
            return (Replay.FAILED if same else Replay.CHANGED), first_line(broken)
        except Exception as error:  # NOTE: an implementation under test may raise anything at all.
            return Replay.CRASHED, f"{type(error).__name__}: {first_line(error)}"
    return Replay.FIXED, ""
