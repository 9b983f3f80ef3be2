"""The verdict on the bookkeeping of a pipeline stage: which stage differs in which round, and what the runs meet."""

from collections import Counter
from dataclasses import replace

import pytest

from specsim.conformance.backend import load
from specsim.host.stages import PipelineStage
from specsim.properties.host.ranks.rounds import Decisions, alone, play_rounds
from specsim.properties.host.ranks.strategy import Asked, RoundsRun, StagesCase
from specsim.properties.host.stages.pipelines import Pipeline
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.hunt.cases import draw_cases
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.turns.priorities import Priorities

REFERENCE = load("specsim.reference")
AGREE, OUTPUT = "stages.stages_agree_after_every_round", "stages.late_records_change_no_output"
RUN = RoundsRun(HashModel(6, 3), (-1, 0, 1, 2), (Asked((1, 2), 9), Asked((3,), 7), Asked((3, 5, 1), 8)))
CASE = StagesCase(RUN, num_stages=3, num_rows=2, aborted=frozenset(), seed=1)
EXAMPLES = 30
DECIDED = "as the last stage has decided"


def pipeline(case, pick, is_watched=True, make_stage=PipelineStage):
    decisions = Decisions(REFERENCE, case.run)
    return Pipeline(decisions, make_stage, case.num_stages, case.num_rows, case.aborted, pick, is_watched)


def message(stage, case=CASE, name=AGREE):
    with pytest.raises(AssertionError) as failure:
        property_named(name).law(REFERENCE.with_function("PipelineStage", stage, "mine"), case)
    return str(failure.value)


class Untrimmed(PipelineStage):
    def _trim(self, held, row):
        if self.stage == self.num_stages - 1:
            super()._trim(held, row)
        else:
            held.num_placeholders = 0


class Early(PipelineStage):
    def is_ready(self, request):
        return True


class Never(PipelineStage):
    def is_ready(self, request):
        return self.stage != 1 and super().is_ready(request)


class ByPosition(PipelineStage):
    def apply(self, relay):
        waiting = sorted(held.request for held in self._rows.values() if held.is_in_flight)
        rows = tuple(row._replace(request=one) for row, one in zip(relay.rows, waiting, strict=False))
        super().apply(relay._replace(rows=rows))


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (
            Untrimmed,
            "seq_len of request 1 on stage 1 of 3 after round 1 = 5, but should be 2, as the last stage has decided",
        ),
        (
            Early,
            "whether stage 0 is ready for the next round of request 0 = True,"
            " but should be False until the bonus token of round 0 is there",
        ),
        (
            Never,
            "whether stage 1 is ready for the next round of request 0 = False,"
            " but should be True, as nothing of it is in flight there",
        ),
        (ByPosition, f"bonus_token of request 1 on stage 2 of 3 after round 1 = 2, but should be 0, {DECIDED}"),
    ],
)
def test_stage_and_round_are_named(stage, expected):
    assert message(stage) == expected
    assert message(stage, name=OUTPUT)


def test_outputs_are_those_of_one_stage_in_every_order_of_events():
    expected = [alone(REFERENCE, RUN, one) for one in RUN.asked]
    assert play_rounds(Decisions(REFERENCE, RUN)) == expected
    for seed in range(12):
        for num_stages in (1, 2, 4):
            outputs = pipeline(replace(CASE, num_stages=num_stages), Priorities(seed).pick).play().outputs
            assert [outputs[number] for number in range(len(expected))] == expected


def test_an_aborted_request_has_a_part_of_its_output():
    shown = pipeline(replace(CASE, aborted=frozenset({1})), Priorities(2).pick).play()
    whole = alone(REFERENCE, RUN, RUN.asked[1])
    assert shown.aborted == {1} and len(shown.outputs[1]) < len(whole)
    assert shown.outputs[1] == whole[: len(shown.outputs[1])]


def test_texts_that_differ_between_stages_change_the_output():
    """The state of every stage is right whenever it is looked at, and the KV of one of them is not."""

    class Astray(PipelineStage):
        looks = 0

        def state(self, request):
            self.looks += 1
            state = super().state(request)
            return state._replace(bonus_token=state.bonus_token ^ 1) if self.stage == 1 and self.looks == 3 else state

    assert message(Astray, name=OUTPUT).startswith("output of request ")


@pytest.mark.parametrize("name", [AGREE, OUTPUT])
def test_cases_meet_what_stages_get_wrong(name):
    """Of thirty examples at least a third have each of these, so that no fault waits for long."""
    met = Counter()
    for case in draw_cases(property_named(name), 0, EXAMPLES):
        met.update(situations(case))
    assert all(met[one] >= EXAMPLES / 3 for one in SITUATIONS), met


SITUATIONS = (
    "abort in flight",
    "join in flight",
    "record of a request that has left",
    "record of a row with a new owner",
    "record after the launch of another round",
    "two records wait",
    "round without drafts",
    "draft with a rejection",
    "tree",
    "chain",
    "sampled",
)


def situations(case):
    """Return what a run of a right stage meets."""
    priorities, seen = Priorities(case.seed), set()
    seen.add("tree" if case.run.budget is None else "chain")
    if any(one.sampling for one in case.run.asked):
        seen.add("sampled")

    def pick(events):
        event, *place = priorities.pick(events)
        in_flight = any(side.in_flight for side in played.sides)
        if event in ("abort", "join") and in_flight:
            seen.add(f"{event} in flight")
        if event == "record":
            seen.update(of_record(played.sides[place[0]], played.sides[0]))
        return (event, *place)

    played = pipeline(case, pick)
    played.play()
    return seen


def of_record(side, first):
    relay, launched = side.records[0]
    owners = {request.row: request for request in side.kv}
    for row in relay.rows:
        if row.request not in side.kv:
            yield "record of a request that has left"
        if owners.get(row.request.row, row.request) != row.request:
            yield "record of a row with a new owner"
        if row.num_rejected:
            yield "draft with a rejection"
        if not launched.is_prefill and row.num_committed + row.num_rejected == 1:
            yield "round without drafts"
    if len(side.records) > 1:
        yield "two records wait"
    if any(number > launched.number for number in first.in_flight.values()):
        yield "record after the launch of another round"
