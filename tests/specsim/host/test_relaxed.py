"""What counts for the penalties of engines: one token an iteration, and under overlap a late one."""

from functools import partial

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.host.logit_rules import LogitRules, ruled_logits
from specsim.host.relaxed import relaxed_output
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.autoregressive import ExactDecoder, decode_alone
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import Prefix
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

CONFIG, MODEL, PROMPT = SpecConfig(1, 3, 4), HashModel(6, 4, 0.9), (1, 2)
STRONG = partial(LogitRules, frequency_penalty=3.0, presence_penalty=1.0)


def run(loop, rules, is_overlapped=False):
    """Return a request that has ended, and what each turn has output."""
    schedule = Schedule(is_overlapped)
    request = Request(0, PROMPT, 24, logit_rules=rules)
    engine = Engine(loop(CONFIG, load_model(MODEL), sizes_for(CONFIG, [request], 1)), 1, schedule=schedule)
    engine.submit(request)
    turns, known = [], 0
    while engine.has_work:
        engine.step()
        if len(request.output) > known:
            turns += [request.output[known : known + 1]] if not known else []
            turns += [request.output[max(known, 1) :]] if len(request.output) > max(known, 1) else []
            known = len(request.output)
    return request, turns


def choose(counted, before):
    """Return the choice after an output when some tokens count."""
    prefix = Prefix(MODEL)
    for token in (*PROMPT, *before):
        prefix.append(token)
    return int(np.argmax(ruled_logits(STRONG(), (), counted, prefix.next_sampling_logits())))


def decode(committed, is_overlapped):
    """Return what an engine outputs in the turns of a run when it counts as one."""
    output = []
    for number, turn in enumerate(committed):
        counted = relaxed_output(PROMPT, committed[:number], is_overlapped)
        for _ in turn:
            output.append(choose(counted, output))
    return output


@pytest.mark.parametrize("loop", [ReferenceWorkerV1, ReferenceWorker], ids=["v1", "v2"])
def test_relaxed_rules_count_the_last_token_of_each_turn(loop):
    request, turns = run(loop, STRONG(is_exact=False))
    assert max(map(len, turns)) > 1
    assert decode(turns, is_overlapped=False) == request.output
    assert decode(turns, is_overlapped=True) != request.output


@pytest.mark.parametrize("is_overlapped", [False, True], ids=["in turn", "overlapped"])
def test_exact_rules_count_alike_in_every_schedule(is_overlapped):
    request, turns = run(ReferenceWorker, STRONG(), is_overlapped)
    output, _ = decode_alone(ExactDecoder(Prefix(MODEL), request.choice_alone()), PROMPT, request.rules)
    assert request.output == output
    assert max(map(len, turns)) > 1
    assert decode(turns, is_overlapped) != output


def test_overlapped_a_launch_counts_what_the_host_knows():
    committed = [[5], [3, 4, 2], [1, 0]]
    counted = [relaxed_output((7, 9), committed[:number]) for number in range(4)]
    assert counted == [[], [5], [5, 2], [5, 2, 0]]
    counted = [relaxed_output((7, 9), committed[:number], is_overlapped=True) for number in range(4)]
    assert counted == [[], [9], [9, 5], [9, 5, 2]]
