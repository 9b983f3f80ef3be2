"""The exact law of what a worker outputs for a sampled request, beside a greedy one."""

from specsim.conformance.backend import Completed, load
from specsim.properties.distribution import autoregressive, require_same_law
from specsim.properties.laws.sampled_engine import HALVING
from specsim.properties.laws.sampling_logits_law import slack_from_logits
from specsim.properties.laws.support.sampled_runs import law_of_runs
from specsim.reference.models import load_model
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.sampled import next_shares

ORACLE = load("specsim.reference")
NUM_TOKENS = 3
NEIGHBOUR = [0, 1, 1]


def law_of(make_worker, config, model, prompt, sampling=HALVING):
    """Return the law of three sampled tokens.

    ``make_worker`` takes a model that is loaded, sizes of pools, and the operations of both; ``config`` has the sizes
    of its drafts.
    """

    def emitted(operations):
        asked = [Request(0, list(prompt), NUM_TOKENS, sampling=sampling), Request(1, NEIGHBOUR, NUM_TOKENS)]
        worker = make_worker(load_model(model, operations), sizes_for(config, asked, 2), operations)
        engine = Engine(worker, 2, 1)
        for request in asked:
            engine.submit(request)
        done = {request.request_id: request for request in engine.run()}
        assert done[1].output == greedy_decode(model, NEIGHBOUR, NUM_TOKENS)
        return tuple(done[0].output)

    return law_of_runs(Completed(ORACLE, ORACLE), emitted, slack_from_logits(model.vocab_size))


def check_sampled_law(make_worker, config, model, prompt):
    """Raise AssertionError unless the law is that of decoding token by token."""
    expected = autoregressive(lambda tokens: next_shares(model, [*prompt, *tokens]), NUM_TOKENS)
    require_same_law(f"law of {prompt}", law_of(make_worker, config, model, prompt), expected)
