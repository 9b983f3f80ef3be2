"""Iterations without a step: one token a request, nothing of the draft but its extend, and nothing lost after them."""

import pytest

from specsim.config import PoolSizes, SpecConfig
from specsim.host.adaptive import AdaptiveConfig, AdaptiveController, AdaptiveSlot
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.engine import Engine
from specsim.simulation.events import Reach, Tag
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

ROOT, CHAIN = SpecConfig(1, 0, 1), SpecConfig(1, 3, 4)
MODEL = HashModel(32, 5, 1.0)
WORKERS = pytest.mark.parametrize("loop", [ReferenceWorkerV1, ReferenceWorker], ids=["v1", "v2"])


class ReadOnce(AdaptiveController):
    """Says how many steps one iteration after the other drafts, then what it said last."""

    def __init__(self, *steps):
        super().__init__(max(steps), AdaptiveConfig((AdaptiveSlot(1, tuple(sorted(set(steps)))),)))
        self.steps = list(steps)

    def num_steps(self, batch_size):
        return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]


def requests(max_new_tokens):
    return [Request(number, (number, 7), max_new_tokens) for number in range(3)]


def run(loop, config, max_new_tokens, page_size=1, adaptive=None, observer=lambda tag: None, sizes=None):
    asked = requests(max_new_tokens)
    worker = loop(config, load_model(MODEL), sizes or sizes_for(config, asked, 3, page_size))
    engine = Engine(worker, 3, decode_log_interval=2, adaptive=adaptive, observer=observer)
    for request in asked:
        engine.submit(request)
    return engine


def decode(engine):
    """Run to the end; yield the result of each iteration and the phases after it."""
    while engine.has_work:
        iteration = engine.step()
        engine.scheduler.check_ledger()
        if iteration is not None:
            yield iteration, engine.worker.phases()
    for request in engine.scheduler.finished:
        assert request.output == greedy_decode(MODEL, request.prompt, request.max_new_tokens)


@WORKERS
@pytest.mark.parametrize("page_size", [1, 4])
def test_a_verify_of_roots_outputs_the_bonus_token(loop, page_size):
    reach = Reach()
    engine = run(loop, ROOT, 5, page_size, observer=reach)
    for iteration, (_, verify_input, verify_output, _) in decode(engine):
        assert iteration.tokens.shape == (3, 1)
        assert iteration.tokens[:, 0].tolist() == verify_output.bonus_tokens.tolist()
        assert iteration.num_accepted_drafts.tolist() == [0, 0, 0]
        assert iteration.num_accepted_tokens.tolist() == [1, 1, 1]
        assert verify_input.positions.tolist() == verify_input.seq_lens.tolist()
        assert verify_output.accept_index.tolist() == [[0], [1], [2]]
    assert engine.num_iterations == 4
    assert [(one.rates.tokens_per_verify, one.rates.accept_rate) for one in engine.intervals] == [(1.0, 0.0)] * 2
    assert reach.counts[Tag.ZERO] == 4
    assert reach.counts[Tag.FULL] == 0


def test_two_iterations_of_roots_are_reserved():
    asked, width = requests(5), 2 + 5 + 2
    engine = run(ReferenceWorker, ROOT, 5, sizes=PoolSizes(1 + 3 * width, 4, width))
    assert sizes_for(ROOT, asked, 3) == engine.worker.sizes
    for _ in decode(engine):
        assert all(len(one.slots) <= one.num_committed + 2 for one in engine.scheduler.running)


@WORKERS
def test_a_perfect_draft_is_accepted_whole_right_after_a_rest(loop):
    engine = run(loop, CHAIN, 16, adaptive=ReadOnce(3, 0, 0, 1, 0, 3))
    counts = [iteration.num_accepted_drafts.tolist() for iteration, _ in decode(engine)]
    assert counts[:6] == [[steps] * 3 for steps in (3, 0, 0, 1, 0, 3)]


@WORKERS
def test_what_a_rest_leaves_after_is_what_drafts_leave_after(loop):
    """At the same length caches and proposals are those of a run that has never rested."""
    after = []
    for steps in ((3,), (3, 0, 0, 0, 0)):
        engine = run(loop, CHAIN, 16, adaptive=ReadOnce(*steps))
        while not engine.scheduler.running or engine.scheduler.running[0].num_committed < 2 + 4 + 4:
            engine.step()
        state = engine.worker.state()
        rows, slots = zip(*((one.row, one.slots[: one.num_committed]) for one in engine.scheduler.running), strict=True)
        pools = [buffer[list(own)].tolist() for own in slots for buffer in (*state["target_kv"], *state["draft_kv"])]
        names = ("seq_lens", "bonus_tokens", "topk_p", "topk_index", "hidden_states")
        after.append((pools, [state[name][list(rows)].tolist() for name in names]))
    assert after[0] == after[1]


def test_fewer_steps_than_none_are_refused_before_anything_runs():
    engine = run(ReferenceWorker, CHAIN, 5)
    with pytest.raises(SpecRejection) as caught:
        engine.worker.decode([], -1)
    assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, "num_steps")
