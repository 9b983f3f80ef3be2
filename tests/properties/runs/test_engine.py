"""Laws of whole runs name exactly the operations that the runs call."""

from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, seed, settings

from specsim.conformance.backend import load
from specsim.operations import RECORDS
from specsim.properties.runs.histories import trees_or_any_scenario
from specsim.properties.runs.play import Play
from specsim.properties.runs.workers.laws_tokens import SPINE


def test_the_spine_is_what_greedy_runs_call():
    called = set()

    def watched(name, function):
        def call(**arguments):
            called.add(name)
            return function(**arguments)

        return call

    reference = load("specsim.reference")
    functions = {name: watched(name, reference.functions[name]) for name in RECORDS}
    backend = replace(reference, functions={**reference.functions, **functions})

    # NOTE: some seeds come to the last operation in their eleventh scenario.
    @seed(1)
    @settings(max_examples=60, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(trees_or_any_scenario())
    def play(scenario):
        Play(scenario, backend).run()

    play()
    assert called - {"map_hot_tokens"} == set(SPINE)
