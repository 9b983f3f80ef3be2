"""Laws of whole runs with rules: the output is that of plain decoding under the same ones, whatever happens between."""

from math import isinf

from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.host.logit_rules import NO_RULES, LogitRules, ruled_logits
from specsim.properties.composite import composite
from specsim.properties.distribution import Outcome, Row, autoregressive, require_same_law
from specsim.properties.laws.checks import require_present, state_of_runs
from specsim.properties.runs.play import Play, parts_of
from specsim.properties.runs.rules.ruled_runs import handed_on_runs, ruled_runs
from specsim.properties.runs.sampling.laws_sampled import emitted, lawful_runs, slack_of_run, with_first
from specsim.properties.runs.sampling.sampled_runs import law_of_runs
from specsim.properties.runs.scenario import Scenario
from specsim.properties.strategies.logit_scenes import Filters, exact_row
from specsim.simulation.models.ground_truth import Prefix

_CALLED = ("apply_penalties", "commit_output_tokens", "forbid_tokens", "prepare_logits")


def ruled_output_is_that_of_plain_decoding(backend: Backend, scenario: Scenario) -> None:
    """Each request outputs what its model chooses token by token when its rules are evaluated on the output so far."""
    Play(scenario, backend).run().require_outputs()


def rows_are_handed_on_without_what_they_knew(backend: Backend, scenario: Scenario) -> None:
    """The same where rows have many owners, and results of the last one come when the next one is there."""
    ruled_output_is_that_of_plain_decoding(backend, scenario)


def engine_emits_the_law_of_its_rules(backend: Backend, scenario: Scenario) -> None:
    """Over all coins a sampled request emits exactly the law of decoding token by token under its rules."""
    model, first = scenario.model, scenario.arrivals[0]
    rules = first.logit_rules or NO_RULES
    law = law_of_runs(parts_of(backend), lambda watched: emitted(watched, scenario), slack_of_run(scenario))

    def row_after(tokens: Outcome) -> Row:
        prefix = Prefix(model)
        for token in (*first.prompt, *tokens):
            prefix.append(token)
        logits = ruled_logits(rules, (), tokens, prefix.next_sampling_logits())
        whole = tuple(None if isinf(logit) else int(logit) for logit in logits)
        return require_present("an exact row", exact_row(whole, Filters()))

    what = f"law of prompt {list(first.prompt)}, {scenario.config}, {model}, {rules}"
    require_same_law(what, law, autoregressive(row_after, first.max_new_tokens))


@composite
def sampled_runs(draw: st.DrawFn) -> Scenario:
    """Draw a sampled request with rules that leave logits whole numbers, so that its law is exact."""
    scenario = draw(lawful_runs())
    token = st.integers(0, scenario.model.vocab_size - 1)
    words = draw(st.lists(st.lists(token, min_size=2, max_size=2).map(tuple), max_size=1))
    rules = LogitRules(
        frequency_penalty=draw(st.sampled_from((1.0, 0.0, 2.0))),
        presence_penalty=draw(st.sampled_from((0.0, 1.0))),
        repetition_penalty=draw(st.sampled_from((1.0, 2.0))),
        logit_bias=((draw(token), draw(st.sampled_from((1.0, -2.0)))),),
        bad_words=tuple(words),
    )
    return with_first(scenario, logit_rules=rules)


PROPERTIES = (
    state_of_runs("ruled_engine", ruled_output_is_that_of_plain_decoding, ruled_runs, _CALLED, "P14"),
    state_of_runs(
        "ruled_engine",
        engine_emits_the_law_of_its_rules,
        sampled_runs,
        ("generate_coins", "verify_tree_sampled_from_logits", *_CALLED),
        "P03",
        plays=(),
    ),
    state_of_runs("ruled_engine", rows_are_handed_on_without_what_they_knew, handed_on_runs, _CALLED, "P15"),
)
