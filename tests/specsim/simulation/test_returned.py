"""What a worker returns in another form than it should is said by name, wherever it is noticed first."""

from dataclasses import replace

import pytest

from specsim.config import SpecConfig
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

CONFIG = SpecConfig(1, 2, 3)
REQUESTS = [Request(number, (1, 2, number), 6) for number in range(2)]


class Changing(ReferenceWorker):
    """Returns something else than it should."""

    def __init__(self, **changes):
        super().__init__(CONFIG, load_model(HashModel(32, 5)), sizes_for(CONFIG, REQUESTS, 2))
        self.changes = changes

    def changed(self, name, value):
        return self.changes[name](value) if name in self.changes else value

    def prefill(self, rows, chunks):
        return self.changed("prefill", super().prefill(rows, chunks))

    def decode(self, rows, num_steps=None):
        return self.changed("decode", super().decode(rows, num_steps))

    def told(self):
        return self.changed("told", super().told())

    def phases(self):
        return self.changed("phases", super().phases())


FORMS = {
    "tokens that prefill returns = 1, but should be 2": {"prefill": lambda tokens: tokens[:1]},
    "what decode returns = list, but should be Iteration": {"decode": lambda one: one.tokens.tolist()},
    "shape of the tokens that decode returns = (2, 0), but should be (2, at least ": {
        "decode": lambda one: replace(one, tokens=one.tokens[:, :0])
    },
    "shape of num_accepted_tokens that decode returns = (2, 1), but should be (2,)": {
        "decode": lambda one: replace(one, num_accepted_tokens=one.num_accepted_tokens[:, None])
    },
    "requests that told() reports on = 1, but should be 2": {"told": lambda reported: reported[:1]},
}
HANDED_OVER = {
    "phases of an iteration = 3, but should be 4": lambda phases: phases[:3],
    "phase 0 = VerifyInput, but should be DraftInput": lambda phases: (phases[1], *phases[1:]),
    "DraftInput.hidden_states = NoneType, but should be ndarray": lambda phases: (
        replace(phases[0], hidden_states=None),
        *phases[1:],
    ),
}


@pytest.mark.parametrize("message", FORMS)
def test_results_of_another_form_are_named(message):
    engine = Engine(Changing(**FORMS[message]), 2)
    for request in REQUESTS:
        engine.submit(request.fresh())
    with pytest.raises(AssertionError) as broken:
        engine.run()
    assert str(broken.value).startswith(message)


@pytest.mark.parametrize("message", HANDED_OVER)
def test_phases_of_another_form_are_named(message):
    with pytest.raises(AssertionError) as broken:
        find_divergence(Changing(), Changing(phases=HANDED_OVER[message]), REQUESTS, max_batch=2)
    assert str(broken.value) == message
