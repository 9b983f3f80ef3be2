"""Q.7: pages of four, a prompt of five tokens, and what leaves after how many output tokens, on each worker."""

import pytest

from specsim.config import SpecConfig
from specsim.conformance.direct import Direct
from specsim.host.exporting import exportable_pages
from specsim.properties.memory.exported import Watched
from specsim.properties.runs.play import own_worker
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.properties.runs.tags import expected_tags
from specsim.simulation.engine import OWN_DECISIONS, Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request

PAGE, PROMPT = 4, (3, 1, 4, 1, 5)
CHAIN = SpecConfig(1, 3, 4)


def worker_of(backend, request, model, **changes):
    """Return the worker of chains with room for a request."""
    arrivals = [Arrival(tuple(request.prompt), request.max_new_tokens)]
    return own_worker(backend, scenario_of(CHAIN, model, arrivals, 1, 0, **changes))


def started(backend, request, model):
    """Return an engine on pages of four, what it shows when somebody leaves, and the worker."""
    worker = worker_of(backend, request, model, page_size=PAGE)
    watched = Watched(Direct(OWN_DECISIONS))
    engine = Engine(worker, 1, operations=watched)
    engine.submit(request)
    return engine, watched


def pages_of(export, num_tokens):
    """Return how many pages leave with the target's cache alone, and with both."""
    return exportable_pages(export.lengths.target, num_tokens, 0, PAGE), export.num_pages


def left_at_the_end(backend, request, model):
    """Run a request; return what left at its end, the target's keys there and in the next slot, and those expected."""
    engine, watched = started(backend, request, model)
    seen = []

    def leave(name, holding):
        export = engine.export(request)
        keys = engine.worker.export(request.row, holding.slots[: len(request.fill)])["target_kv"][0].tolist()
        seen.append((export, keys))

    watched.leave = leave
    while engine.has_work:
        engine.step()
    ((export, keys),) = seen
    return export, keys, expected_tags(model, [*request.fill, 0])[0][0]


def test_q7_four_output_tokens_leave_two_pages(backend):
    """Of n = 9 tokens L = 8 were fed; the draft's entry of position 7 reads token 8, so that pairs fill one page."""
    request, model = Request(0, PROMPT, 9), HashModel(32, 3, num_right=0)
    engine, _ = started(backend, request, model)
    while len(request.output) < 4:
        engine.step()
    export = engine.export(request)
    assert len(request.fill) == 9
    assert (export.tokens, export.lengths.target, export.lengths.draft) == (request.fill[:8], 8, 7)
    assert export.slots == tuple(request.slots[:8])
    assert pages_of(export, 9) == (2, 1)


def test_q7_an_end_after_three_leaves_one_page(backend):
    """Counting n = 8 tokens would export page 1, whose last slot holds the first rejected draft."""
    request, model = Request(0, PROMPT, 3), HashModel(32, 3, num_right=0)
    export, keys, expected = left_at_the_end(backend, request, model)
    assert len(request.fill) == 8
    assert export.lengths.target == 7
    assert pages_of(export, 8) == (1, 1)
    assert keys[:7] == expected[:7]
    assert keys[7] != expected[7]


def test_q7_a_stop_inside_a_run_leaves_two_pages(backend):
    """n = 10 tokens are resolved and E = 9 fed when the third output token ends the text; position 7 was a draft."""
    model = HashModel(32, 3, 1.0)
    text = greedy_decode(model, PROMPT, 5)
    assert text[2] not in text[:2]
    request = Request(0, PROMPT, 9, eos_token=text[2])
    export, keys, expected = left_at_the_end(backend, request, model)
    assert len(request.fill) == 8
    assert (export.tokens, export.lengths.target, export.lengths.states) == (request.fill, 8, 0)
    assert pages_of(export, 10) == (2, 1)
    assert keys == expected[:8]


@pytest.mark.parametrize(
    ("num_written", "num_tokens", "num_final", "num_pages"),
    [(8, 9, None, 2), (7, 8, None, 1), (9, 10, 8, 2), (9, 10, None, 2), (12, 13, 11, 2)],
)
def test_q7_pages_of_four(num_written, num_tokens, num_final, num_pages):
    assert exportable_pages(num_written, num_tokens, 0, PAGE, num_final) == num_pages


def test_q7_a_text_of_nine_tokens_goes_on_after_eight(backend):
    """What is handed over has the bonus token: the draft's entry of position 7 has read it, and one token is computed.

    A chain of the same tokens goes on in pages of two, which divide those of four.
    """
    request, model = Request(0, PROMPT, 12), HashModel(32, 3, num_right=0)
    engine, _ = started(backend, request, model)
    while len(request.output) < 4:
        engine.step()
    handed = engine.hand_over(request)
    assert len(handed.text) == 9
    assert (handed.lengths.target, handed.lengths.draft) == (8, 8)
    mover = request.elsewhere()
    worker = worker_of(backend, mover, model, page_size=2, is_v1=True)
    other = Engine(worker, 1)
    other.load(mover, handed)
    assert mover.loaded.num_positions == 8
    other.run()
    assert mover.output == greedy_decode(model, PROMPT, 12)
