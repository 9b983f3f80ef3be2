"""Laws of pipeline stages: all of them keep the same of a request, however late they hear of what was decided."""

from specsim.conformance.backend import Backend, load
from specsim.properties.host.ranks.rounds import Decisions, alone
from specsim.properties.host.ranks.strategy import StagesCase, stages_cases
from specsim.properties.host.stages.pipelines import Pipeline, Played
from specsim.properties.laws.checks import require, state
from specsim.simulation.turns.priorities import Priorities

ORACLE = load("specsim.reference")
STAGE = "PipelineStage"


def stages_agree_after_every_round(backend: Backend, case: StagesCase) -> None:
    """After the record of a round each stage has the length, tokens and placeholders that the last one decided.

    No stage is ready for the next round of a request before, and requests of other rounds keep what they have.
    """
    _play(backend, case, is_watched=True)


def late_records_change_no_output(backend: Backend, case: StagesCase) -> None:
    """Every request outputs what it outputs token by token, an aborted one a part of it, whenever records arrive."""
    shown = _play(backend, case, is_watched=False)
    for number, asked in enumerate(case.run.asked):
        got, expected = shown.outputs[number], alone(ORACLE, case.run, asked)
        expected = expected[: len(got)] if number in shown.aborted else expected
        require(got == expected, f"output of request {number} on {case.num_stages} stages", got, expected)


def _play(backend: Backend, case: StagesCase, is_watched: bool) -> Played:
    decisions = Decisions(ORACLE, case.run)
    pick = Priorities(case.seed).pick
    stages = backend.host(STAGE)
    return Pipeline(decisions, stages, case.num_stages, case.num_rows, case.aborted, pick, is_watched).play()


PROPERTIES = tuple(
    state("stages", law, stages_cases, (STAGE,), "P57")
    for law in (stages_agree_after_every_round, late_records_change_no_output)
)
