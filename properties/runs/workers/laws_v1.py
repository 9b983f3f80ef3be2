"""Laws of the V1 worker: those of every worker, its books, what ended requests leave over, and agreement with V2."""

from specsim.conformance.backend import EAGLE_V1, Backend, load
from specsim.phases import Batch, DraftInput, EagleDraftExtendInput, Phase
from specsim.properties.laws.checks import require, require_kind, states_of_runs
from specsim.properties.property import OF_EAGLE
from specsim.properties.runs.histories import v1_scenarios
from specsim.properties.runs.play import Play, require_in_step, require_same
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.workers.laws_state import (
    agrees_with_the_reference_in_lockstep,
    committed_kv_is_that_of_a_fresh_prefill,
    proposals_depend_on_the_committed_tokens_only,
)
from specsim.properties.runs.workers.laws_tokens import output_equals_autoregressive_decoding, slots_have_one_owner
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.simulation.comparing.history import first_divergence_of_v1
from specsim.simulation.worker import Iteration

OPERATIONS = (
    *("create_extend_after_decode_spec_info", "draft_extend_forward", "filter_batch", "generate_attn_arg_prefill"),
    *("merge_batch", "remap_accepted_slots", "truncate_at_stop"),
)
"""What the V1 worker calls and the V2 worker does not, and the forward that gets segments of different lengths."""

HAND_OVERS = ("filter_batch", "merge_batch", "truncate_at_stop")


def play_handing_over(backend: Backend, scenario: Scenario) -> Play:
    """Return a play of the implementation's own worker, or one whose hand-overs alone are the implementation's.

    Its arrays are then the reference's.
    """
    if backend.own_worker(is_v1=True) is not None:
        return Play(scenario, backend)
    operations = load("specsim.reference")
    for name in HAND_OVERS:
        operations = operations.with_function(name, backend.host(name), backend.name)
    return Play(scenario, operations)


def both_workers_decode_alike(backend: Backend, scenario: Scenario) -> None:
    """V1 and V2 draft, verify and extend the same in every iteration, and their requests end alike."""
    of_v2, of_v1 = (Play(scenario.having(is_v1=is_v1), backend) for is_v1 in (False, True))
    for _ in require_in_step(of_v2, of_v1, first_divergence_of_v1):
        pass
    for one, other in zip(of_v2.engine.scheduler.finished, of_v1.engine.scheduler.finished, strict=True):
        require_same(other, one, "request_id", "output", "finish", "counters")


def ended_requests_carry_nothing_on(backend: Backend, scenario: Scenario) -> None:
    """After an iteration the batch has every request, but the extend and the next draft those alone that go on.

    Without any, the batch carries an idle draft input, which the next requests can merge with.
    """
    play = play_handing_over(backend, scenario)
    for iteration in play.iterations():
        draft_input, _, _, extend_input = play.worker.phases()
        going_on = [request.row for request in play.engine.scheduler.running]
        _require_rows(extend_input, going_on)
        if isinstance(play.worker, ReferenceWorkerV1):
            _check_batch(play.worker.batch, going_on, draft_input, iteration)


def _check_batch(batch: Batch, going_on: list[int], draft_input: Phase, iteration: Iteration) -> None:
    """Check what the reference's loop carries: it keeps a batch of everyone until the next one is formed."""
    _require_rows(require_kind("what is carried", batch.info, DraftInput), going_on)
    rows, everyone = batch.req_pool_indices.tolist(), _rows(draft_input)
    require(rows == everyone, "rows of the batch", rows, everyone)
    got, lengths = batch.seq_lens.tolist(), vars(draft_input)["seq_lens"] + iteration.num_accepted_tokens
    require(got == lengths.tolist(), "seq_lens of the batch", got, lengths.tolist())


def segments_are_what_was_accepted(backend: Backend, scenario: Scenario) -> None:
    """A segment of the extend holds the last output tokens, one a committed position, and both its counts say so."""
    play = play_handing_over(backend, scenario)
    for _ in play.iterations():
        extend_input = require_kind("the extend", play.worker.phases()[3], EagleDraftExtendInput)
        drafts, tokens = extend_input.num_accepted_drafts.tolist(), extend_input.num_accepted_tokens.tolist()
        counts = [count + 1 for count in drafts]
        require(tokens == counts, "num_accepted_tokens", tokens, counts)
        for name, on_device in (("num_accepted_tokens", tokens), ("seq_lens", extend_input.seq_lens.tolist())):
            copies = list(getattr(extend_input, f"{name}_cpu"))
            require(copies == on_device, f"{name}_cpu", copies, on_device)
        begin = 0
        for place, request in enumerate(play.engine.scheduler.running):
            segment = slice(begin, begin + tokens[place])
            begin = segment.stop
            for name, everything in (("input_ids", request.output), ("out_cache_loc", request.slots)):
                got, expected = getattr(extend_input, name)[segment].tolist(), everything[-tokens[place] :]
                require(got == expected, f"{name} of request {request.request_id}", got, expected)


def _require_rows(phase: Phase, expected: list[int]) -> None:
    rows = _rows(phase)
    require(rows == expected, f"rows of {type(phase).__name__}", rows, expected)


def _rows(phase: Phase) -> list[int]:
    rows: list[int] = vars(phase)["req_pool_indices"].tolist()
    return rows


PROPERTIES = states_of_runs(
    "worker_v1",
    (output_equals_autoregressive_decoding, v1_scenarios, OPERATIONS, "P01"),
    (slots_have_one_owner, v1_scenarios, OPERATIONS, "P38"),
    (committed_kv_is_that_of_a_fresh_prefill, v1_scenarios, OPERATIONS, "P40"),
    (proposals_depend_on_the_committed_tokens_only, v1_scenarios, OPERATIONS, "P49"),
    (both_workers_decode_alike, v1_scenarios, OPERATIONS, "P55", {"plays": OF_EAGLE}),
    (agrees_with_the_reference_in_lockstep, v1_scenarios, (*OPERATIONS, "gather_output_logprobs"), "P62"),
    (ended_requests_carry_nothing_on, v1_scenarios, HAND_OVERS, "P59", {"fills_missing": False}),
    (segments_are_what_was_accepted, v1_scenarios, HAND_OVERS, "P25", {"fills_missing": False}),
    plays=(EAGLE_V1,),
)
