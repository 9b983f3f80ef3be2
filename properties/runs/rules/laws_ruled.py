"""Laws of whole runs with rules: the output is that of plain decoding under the same ones, whatever happens between."""

from dataclasses import replace
from math import isinf

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend
from specsim.host.logit_rules import NO_RULES, LogitRules, ruled_logits
from specsim.properties.composite import composite
from specsim.properties.distribution import Outcome, Row
from specsim.properties.laws.checks import require_present, states_of_runs
from specsim.properties.runs.histories import arrivals, trees_or_any_scenario
from specsim.properties.runs.play import Play
from specsim.properties.runs.sampling.laws_sampled import lawful_runs, require_law, with_first
from specsim.properties.runs.scenario import Arrival, Scenario
from specsim.properties.strategies.logit_scenes import Filters, exact_row
from specsim.simulation.models.ground_truth import Prefix, greedy_decode
from specsim.simulation.models.hash_model import HashModel

STRENGTHS = (0.0, 0.0, 0.75, 3.0, -0.5)
SCALES = (1.0, 1.0, 2.0, 0.5)
FEW_TOKENS = 6
"""Tokens of a vocabulary in which outputs repeat themselves."""


@composite
def handed_on_runs(draw: st.DrawFn) -> Scenario:
    """Draw short requests that follow each other in a row or two, while what was launched for the last one is late.

    Strong penalties make the first token that a request repeats another one; some requests have none.
    """
    prompts = st.lists(st.integers(0, FEW_TOKENS - 1), min_size=1, max_size=3).map(tuple)
    one = st.builds(Arrival, prompt=prompts, max_new_tokens=st.sampled_from((5, 3, 4, 2)))
    run, asked = draw(any_ruled_runs()), enumerate(draw(st.lists(one, min_size=3, max_size=5)))
    crowd = [replace(each, prompt=(place, *each.prompt)) for place, each in asked]
    strong = LogitRules(frequency_penalty=draw(st.sampled_from((6.0, -6.0))), presence_penalty=3.0)
    return run.having(
        arrivals=tuple(replace(each, logit_rules=draw(st.sampled_from((strong, strong, None)))) for each in crowd),
        max_batch=draw(st.integers(1, 2)),
        is_v1=False,
        is_overlapped=True,
        prefill_chunk=None,
        retractions=(),
    )


def ruled_runs() -> SearchStrategy[Scenario]:
    """Return a strategy of runs with rules, some of which begin again; the simplest does, in strong penalties on V2."""
    return st.one_of(resumed_runs(), any_ruled_runs(), any_ruled_runs(), any_ruled_runs())


@composite
def resumed_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run of strong penalties in which a short request makes room for one that joins a long one.

    One that has output something loses its slots and comes back. What a request has output decides most of its tokens.
    """
    scenario = draw(trees_or_any_scenario())
    lengths = (draw(st.sampled_from((3, 5))), 14, 10)
    prompts = [draw(st.lists(st.integers(0, FEW_TOKENS - 1), max_size=3)) for _ in lengths]
    strong = LogitRules(frequency_penalty=draw(st.sampled_from((3.0, -3.0, 1.5))))
    is_v1, is_overlapped = draw(st.sampled_from(((False, False), (True, False), (False, True))))
    return scenario.having(
        vocab_size=FEW_TOKENS,
        hot_token_id=None,
        arrivals=tuple(
            Arrival((number, *prompt), length, logit_rules=strong)
            for number, (prompt, length) in enumerate(zip(prompts, lengths, strict=True))
        ),
        is_v1=is_v1,
        max_batch=2,
        is_overlapped=is_overlapped,
        stream_seed=draw(st.integers(0, 2**16)),
        has_prefix_cache=draw(st.booleans()),
        retractions=((draw(st.sampled_from((4, 3, 5))), -1),),
    )


@composite
def any_ruled_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run of few tokens in which most requests have rules; some overlap, run in chunks, or lose their slots.

    Most often there are more requests than run at once, so that rows go from one with rules to one without any.
    """
    scenario = draw(trees_or_any_scenario())
    few = [_of_few_tokens(one) for one in (*scenario.arrivals, *draw(st.lists(arrivals(), max_size=2)))]
    scenario = scenario.having(vocab_size=FEW_TOKENS, hot_token_id=None)
    rules = [_rules(scenario.model, one) for one in few]
    is_v1, is_overlapped = draw(st.sampled_from(((True, False), (False, False), (False, True), (False, True))))
    retracted_after = draw(st.sampled_from((0, 2, 4)))
    return scenario.having(
        arrivals=tuple(
            replace(one, logit_rules=draw(st.one_of(some, some, st.none())))
            for one, some in zip(few, rules, strict=True)
        ),
        is_v1=is_v1,
        max_batch=draw(st.integers(1, scenario.room.max_batch)),
        is_overlapped=is_overlapped,
        prefill_chunk=draw(st.sampled_from((None, 2))),
        stream_seed=draw(st.integers(0, 2**16)),
        has_prefix_cache=draw(st.booleans()),
        retractions=((retracted_after, -1),) if retracted_after else (),
    )


def _of_few_tokens(arrival: Arrival) -> Arrival:
    """Return a request in the small vocabulary that may stop at a token which its output is likely to hold."""
    prompt = tuple(token % FEW_TOKENS for token in arrival.prompt)
    eos_token = None if arrival.eos_token is None else arrival.eos_token % FEW_TOKENS
    return replace(arrival, step=0, prompt=prompt, eos_token=eos_token, max_new_tokens=arrival.max_new_tokens + 4)


@composite
def _rules(draw: st.DrawFn, model: HashModel, arrival: Arrival) -> LogitRules:
    """Draw rules; bad words are those that the request would output first without any rules."""
    output = greedy_decode(model, arrival.prompt, arrival.max_new_tokens)
    begins = draw(st.lists(st.integers(0, len(output) - 1), max_size=2))
    words = {tuple(output[begin : begin + draw(st.sampled_from((2, 3, 1)))]) for begin in begins}
    biased = draw(st.lists(st.integers(0, FEW_TOKENS - 1), max_size=2, unique=True))
    strength = st.sampled_from(STRENGTHS)
    return replace(
        NO_RULES,
        frequency_penalty=draw(strength),
        presence_penalty=draw(strength),
        repetition_penalty=draw(st.sampled_from(SCALES)),
        logit_bias=tuple((token, draw(st.sampled_from((2.5, -2.5, 1.0)))) for token in biased),
        min_tokens=draw(st.sampled_from((0, 3, 5))) if arrival.eos_token is not None else 0,
        bad_words=tuple(sorted(words)),
    )


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

    def row_after(tokens: Outcome) -> Row:
        logits = ruled_logits(rules, (), tokens, Prefix(model, (*first.prompt, *tokens)).next_sampling_logits())
        whole = tuple(None if isinf(logit) else int(logit) for logit in logits)
        return require_present("an exact row", exact_row(whole, Filters()))

    require_law(backend, scenario, row_after)


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


_DRAWN = ("generate_coins", "verify_tree_sampled_from_logits", *_CALLED)

PROPERTIES = states_of_runs(
    "ruled_engine",
    (ruled_output_is_that_of_plain_decoding, ruled_runs, _CALLED, "P14"),
    (engine_emits_the_law_of_its_rules, sampled_runs, _DRAWN, "P03", {"plays": ()}),
    (rows_are_handed_on_without_what_they_knew, handed_on_runs, _CALLED, "P15"),
)
