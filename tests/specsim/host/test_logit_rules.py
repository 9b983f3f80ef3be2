import pytest

from specsim.config import SpecConfig
from specsim.host.grammar import TableGrammar
from specsim.host.logit_rules import LogitRules, forbidden_tokens, ruled_logits
from specsim.properties.runs.choices import Automaton
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

CHAIN = SpecConfig(1, 3, 4)


@pytest.mark.parametrize(
    ("rules", "reason", "what"),
    [
        ({"frequency_penalty": 2.0**21}, Reason.SCALAR_OUT_OF_RANGE, "frequency_penalty"),
        ({"presence_penalty": float("nan")}, Reason.SCALAR_OUT_OF_RANGE, "presence_penalty"),
        ({"repetition_penalty": -1.0}, Reason.SCALAR_OUT_OF_RANGE, "repetition_penalty"),
        ({"logit_bias": ((1, float("inf")),)}, Reason.SCALAR_OUT_OF_RANGE, "logit_bias[0]"),
        ({"logit_bias": ((-1, 1.0),)}, Reason.TOKEN_OUT_OF_RANGE, "logit_bias[0]"),
        ({"logit_bias": ((1, 1.0), (1, 2.0))}, Reason.BAD_CONFIGURATION, "tokens of logit_bias"),
        ({"min_tokens": -1}, Reason.COUNT_OUT_OF_RANGE, "min_tokens"),
        ({"bad_words": ((),)}, Reason.COUNT_OUT_OF_RANGE, "len(bad_words[0])"),
        ({"bad_words": ((1,) * 9,)}, Reason.COUNT_OUT_OF_RANGE, "len(bad_words[0])"),
        ({"bad_words": ((1,),) * 33}, Reason.COUNT_OUT_OF_RANGE, "len(bad_words)"),
        ({"bad_words": ((1, -2),)}, Reason.TOKEN_OUT_OF_RANGE, "bad_words[0]"),
    ],
)
def test_rules_out_of_range_are_rejected(rules, reason, what):
    with pytest.raises(SpecRejection) as caught:
        LogitRules(**rules)
    assert (caught.value.reason, caught.value.what) == (reason, what)


@pytest.mark.parametrize(
    ("request_of", "reason"),
    [
        ({"logit_rules": LogitRules(bad_words=((8,),))}, Reason.TOKEN_OUT_OF_RANGE),
        ({"logit_rules": LogitRules(logit_bias=((8, 1.0),))}, Reason.TOKEN_OUT_OF_RANGE),
        ({"logit_rules": LogitRules(min_tokens=9)}, Reason.BAD_CONFIGURATION),
        ({"logit_rules": LogitRules(bad_words=tuple((t,) for t in range(8)))}, Reason.EMPTY_DISTRIBUTION),
        (
            {
                "logit_rules": LogitRules(bad_words=tuple((t,) for t in range(1, 8)), min_tokens=1),
                "eos_token": 0,
            },
            Reason.EMPTY_DISTRIBUTION,
        ),
        (
            {"logit_rules": LogitRules(bad_words=((1,),)), "grammar": Automaton(8, 3, 0.5, 99, 1).start},
            Reason.BAD_CONFIGURATION,
        ),
    ],
)
def test_requests_whose_rules_leave_no_way_on_are_refused_and_others_go_on(request_of, reason):
    others = [Request(0, [1, 2], 3)]
    worker = ReferenceWorker(CHAIN, load_model(HashModel(8, 1)), sizes_for(CHAIN, [Request(1, [1, 2], 8)], 2))
    engine = Engine(worker, 2)
    engine.submit(others[0])
    with pytest.raises(SpecRejection) as caught:
        engine.submit(Request(1, [1, 2], 8, **request_of))
    assert caught.value.reason is reason
    assert [len(request.output) for request in engine.run()] == [3]


def test_a_grammar_may_stand_beside_penalties():
    worker = ReferenceWorker(CHAIN, load_model(HashModel(8, 1)), sizes_for(CHAIN, [Request(0, [1], 6)], 1))
    engine = Engine(worker, 1)
    start = Automaton(8, 3, 0.5, 1000, 1).start
    engine.submit(Request(0, [1], 6, grammar=start, logit_rules=LogitRules(frequency_penalty=5.0)))
    (request,) = engine.run()
    matcher: TableGrammar = start()
    for token in request.output:
        matcher.accept(token)
    assert len(request.output) == 6


def test_rules_of_one_output():
    rules = LogitRules(0.5, 1.0, 2.0, ((3, 1.5),), 4, ((2, 0), (1,)))
    assert forbidden_tokens(rules, {3}, [2, 2]) == {0, 1, 3}
    assert forbidden_tokens(rules, {3}, [2, 2, 1, 2]) == {0, 1}
    assert forbidden_tokens(rules, {3}, [2, 2, 2, 1]) == {1}
    assert ruled_logits(LogitRules(0.5, 1.0, 2.0, ((3, 1.5),)), (), [2, 2, 0], [4, 4, 4, -4]) == [1.25, 4.0, 1.0, -2.5]
