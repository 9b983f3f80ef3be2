"""Whole runs whose requests bring rules about logits, made so that the rules decide something."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.host.logit_rules import NO_RULES, LogitRules
from specsim.properties.composite import composite
from specsim.properties.runs.histories import arrivals, trees_or_any_scenario
from specsim.properties.runs.scenario import Arrival, Scenario
from specsim.simulation.models.ground_truth import greedy_decode
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
    one = st.builds(
        Arrival,
        prompt=st.lists(st.integers(0, FEW_TOKENS - 1), min_size=1, max_size=3).map(tuple),
        max_new_tokens=st.sampled_from((5, 3, 4, 2)),
    )
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
