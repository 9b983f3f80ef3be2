"""Texts that go on in another engine: what is refused by name, and what a request brings beside its KV."""

from dataclasses import replace

import pytest

from specsim import Reason, SpecRejection
from specsim.config import SpecConfig
from specsim.host.logit_rules import LogitRules
from specsim.host.ngram import NgramParameters
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.choices import Automaton
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.memory import ExportLengths
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

CHAIN, TREE = SpecConfig(1, 2, 3), SpecConfig(2, 2, 5)
MODEL = HashModel(32, 5, 0.9)
WINDOW = replace(MODEL, target_pool=PoolKind.SWA, window=4)
STATES = replace(MODEL, target_pool=PoolKind.HYBRID)


def asked(**changed):
    return Request(7, (3, 1, 4, 1, 5), 12, **changed)


def engine_of(model=MODEL, request=None, config=CHAIN, page_size=1, name=None, **schedule):
    """Return an engine for two such requests."""
    scheduled, parameters = Schedule(**schedule), config if name is None else NgramParameters(num_draft_tokens=4)
    config = parameters if name is None else parameters.config
    sizes = sizes_for(config, [request or asked()], 2, page_size, model.window, scheduled)
    worker = loop_of(name or "eagle_v2")(parameters, load_model(model), sizes)
    return Engine(worker, 2, 3, schedule=scheduled)


def handed(model=MODEL, num_steps=2, request=None, **options):
    """Return a request as it goes on elsewhere, and what is handed over."""
    request = request or asked()
    engine = engine_of(model, request, **options)
    engine.submit(request)
    for _ in range(num_steps):
        engine.step()
    return request.elsewhere(), engine.hand_over(request)


def output_of(engine, request):
    engine.run()
    return request.output


def test_a_request_goes_on_where_it_is_loaded():
    request, taken = handed()
    engine = engine_of(config=TREE, page_size=4)
    engine.load(request, taken)
    assert request.loaded.num_positions == len(request.fill) - 1 == taken.lengths.draft
    assert output_of(engine, request) == greedy_decode(MODEL, request.prompt, 12)
    assert request.loaded is None


def test_one_token_is_computed_of_it(monkeypatch):
    request, taken = handed()
    engine, chunks = engine_of(), []
    prefill = engine.worker.prefill
    monkeypatch.setattr(engine.worker, "prefill", lambda rows, some: (chunks.extend(some), prefill(rows, some))[1])
    engine.load(request, taken)
    engine.step()
    ((start, end),) = [(one.start, one.end) for one in chunks]
    assert (start, end) == (taken.lengths.target, taken.lengths.target + 1)


def test_a_retraction_computes_it_anew():
    request, taken = handed()
    engine = engine_of()
    engine.load(request, taken)
    engine.step()
    engine.scheduler.retract(request)
    assert output_of(engine, request) == greedy_decode(MODEL, request.prompt, 12)


def test_what_is_loaded_leaves_when_its_prefill_is_resolved():
    request, taken = handed()
    engine = engine_of(is_overlapped=True)
    engine.load(request, taken)
    engine._take_turn(engine._launch_prefill)
    assert engine.num_in_flight
    assert engine.export(request).lengths == ExportLengths(0, 0)
    engine._resolve_down_to(0)
    assert engine.export(request).lengths.target == len(request.fill) - 1
    assert engine.hand_over(request).load(request.fill, taken.form).num_positions == len(request.fill) - 1


def test_a_text_goes_on_from_what_was_loaded_of_its_front():
    first, taken = handed()
    longer = Request(8, (*first.fill, 2, 7), 5)
    engine = engine_of(request=longer)
    engine.load(longer, taken)
    assert output_of(engine, longer) == greedy_decode(MODEL, longer.prompt, 5)


def test_a_draft_without_kv_needs_the_targets_alone():
    request, taken = handed()
    engine = engine_of(name="ngram_v2")
    engine.load(request, taken)
    assert output_of(engine, request) == greedy_decode(MODEL, request.prompt, 12)
    with pytest.raises(SpecRejection, match="KV components of the draft"):
        handed_over_to_eagle()


def handed_over_to_eagle():
    request, taken = handed(name="ngram_v2")
    engine_of().load(request, taken)


def test_states_do_not_leave_while_a_forward_is_on_its_way():
    request, taken = handed(STATES, num_steps=3, is_overlapped=True)
    assert taken.lengths.states == 0 < taken.lengths.target
    with pytest.raises(SpecRejection) as refusal:
        engine_of(STATES).load(request, taken)
    assert refusal.value.reason is Reason.COUNT_OUT_OF_RANGE


def test_a_window_leaves_with_its_last_positions():
    request, taken = handed(WINDOW, num_steps=3)
    length = taken.lengths.target
    assert 0 < taken.window_start <= length - WINDOW.window + 1
    assert {len(layer) for layer in taken.contents["swa_kv"]} == {length - taken.window_start}
    engine = engine_of(WINDOW, page_size=4)
    engine.load(request, taken)
    engine.step()
    assert output_of(engine, request) == greedy_decode(WINDOW, request.prompt, 12)
    engine.scheduler.check_ledger()


def test_a_long_text_is_loaded_into_a_small_pool_of_a_window():
    """The pool of the window holds less than the text: pages of it are given back while it is loaded."""
    request = Request(1, tuple(range(30)), 6)
    mover, taken = handed(WINDOW, num_steps=4, request=request, prefill_chunk=8)
    engine = engine_of(WINDOW, request, page_size=2, prefill_chunk=4)
    assert engine.worker.sizes.num_swa_slots < taken.lengths.target
    engine.load(mover, taken)
    while engine.has_work:
        engine.step()
        engine.scheduler.check_ledger()
    assert mover.output == greedy_decode(WINDOW, mover.prompt, 6)


def test_a_grammar_goes_on_after_the_output():
    grammar = Automaton(32, 4, 0.5, 1 << 30, 11)
    request, taken = handed(request=asked(grammar=grammar.start))
    stays = asked(grammar=grammar.start)
    for engine, one in ((engine_of(), request), (engine_of(), stays)):
        engine.load(one, taken) if one is request else engine.submit(one)
        engine.run()
    assert request.output == stays.output
    assert request.matcher.state == stays.matcher.state


def test_penalties_count_what_was_output_elsewhere():
    sampling = SamplingParameters(temperature=1.0, top_k=1, seed=3)
    rules = LogitRules(repetition_penalty=1.5, presence_penalty=2.0, frequency_penalty=1.0)
    model = HashModel(8, 5, 0.9)
    request, taken = handed(model, request=asked(sampling=sampling, logit_rules=rules))
    stays = asked(sampling=sampling, logit_rules=rules)
    for engine, one in ((engine_of(model), request), (engine_of(model), stays)):
        engine.load(one, taken) if one is request else engine.submit(one)
        engine.run()
    assert request.output == stays.output


REQUEST, TAKEN = handed()


def changed(**lengths):
    return replace(TAKEN, lengths=replace(TAKEN.lengths, **lengths))


def without(name):
    return replace(TAKEN, contents={**TAKEN.contents, name: []})


@pytest.mark.parametrize(
    ("taken", "reason", "what"),
    [
        (replace(TAKEN, form=replace(TAKEN.form, vocab_size=31)), Reason.BAD_CONFIGURATION, "tokens of the vocabulary"),
        (handed(WINDOW)[1], Reason.BAD_CONFIGURATION, "KV components of the target"),
        (handed(replace(MODEL, target_pool=PoolKind.MLA))[1], Reason.BAD_CONFIGURATION, "KV components of the target"),
        (handed(replace(MODEL, num_draft_layers=2))[1], Reason.BAD_CONFIGURATION, "KV components of the draft"),
        (handed(STATES)[1], Reason.BAD_CONFIGURATION, "recurrent states"),
        (replace(TAKEN, form=replace(TAKEN.form, page_size=3)), Reason.NOT_DIVISIBLE, "page_size"),
        (replace(TAKEN, text=(9, *TAKEN.text[1:])), Reason.BAD_CONFIGURATION, "text"),
        (changed(target=TAKEN.lengths.target + 1), Reason.INCONSISTENT_LENGTHS, "rows of target_kv"),
        (changed(target=len(TAKEN.text) + 1), Reason.COUNT_OUT_OF_RANGE, "lengths.target"),
        (changed(draft=TAKEN.lengths.target + 1), Reason.COUNT_OUT_OF_RANGE, "lengths.draft"),
        (changed(draft=TAKEN.lengths.draft - 1), Reason.INCONSISTENT_LENGTHS, "rows of draft_kv"),
        (replace(TAKEN, window_start=-1), Reason.COUNT_OUT_OF_RANGE, "window_start"),
        (without("target_kv"), Reason.INCONSISTENT_LENGTHS, "layers of target_kv"),
        (without("draft_kv"), Reason.INCONSISTENT_LENGTHS, "layers of draft_kv"),
    ],
    ids=[
        *("vocabulary", "window", "kind", "draft layers", "states", "pages", "another text", "a token without KV"),
        *("more than the text", "a draft ahead", "a draft entry too many", "no position", "no KV", "no draft KV"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(taken, reason, what):
    engine, request = engine_of(page_size=4), replace(REQUEST)
    with pytest.raises(SpecRejection) as refusal:
        engine.load(request, taken)
    assert (refusal.value.reason, refusal.value.what) == (reason, what)
    assert not engine.has_work
    assert request.loaded is None


def test_a_pool_that_is_too_small_refuses_the_request():
    engine = engine_of(request=Request(0, (1,), 1))
    with pytest.raises(SpecRejection) as refusal:
        engine.load(replace(REQUEST), TAKEN)
    assert refusal.value.reason is Reason.ROW_TOO_SHORT
    assert not engine.has_work


def test_layouts_that_have_no_row_a_slot_are_refused():
    model = replace(MODEL, target_pool=PoolKind.DSA)
    with pytest.raises(SpecRejection) as refusal:
        handed(model)
    assert refusal.value.reason is Reason.NO_MOVE
    with pytest.raises(SpecRejection) as refusal:
        engine_of(model).load(replace(REQUEST), TAKEN)
    assert refusal.value.reason is Reason.NO_MOVE


def test_requests_that_run_or_have_ended_are_not_loaded():
    running, engine = asked(), engine_of()
    engine.submit(running)
    engine.step()
    with pytest.raises(SpecRejection) as refusal:
        engine.load(running, TAKEN)
    assert refusal.value.reason is Reason.WRONG_PHASE
    engine.run()
    for call in (lambda: engine.load(running, TAKEN), running.elsewhere):
        with pytest.raises(SpecRejection) as refusal:
            call()
        assert refusal.value.reason is Reason.WRONG_PHASE


def test_a_worker_without_the_door_is_refused():
    sizes = sizes_for(CHAIN, [asked()], 2)

    class Handed:
        """A worker that hands nothing over."""

        def __getattr__(self, name):
            if name in ("load", "pool_form"):
                raise AttributeError(name)
            return getattr(worker, name)

    worker = ReferenceWorker(CHAIN, load_model(MODEL), sizes)
    engine = Engine(Handed(), 2)
    request = asked()
    engine.submit(request)
    engine.step()
    for call in (lambda: engine.hand_over(request), lambda: engine.load(replace(REQUEST), TAKEN)):
        with pytest.raises(SpecRejection) as refusal:
            call()
        assert (refusal.value.reason, refusal.value.what) == (Reason.BAD_CONFIGURATION, "worker")
