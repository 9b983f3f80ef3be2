"""Laws of the draft cache: the slots that drafts write, and those that they read."""

import numpy as np
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend
from specsim.properties.laws.support.checks import (
    Case,
    arrangements,
    outputs_of,
    require_equal,
    state,
    take_blocks,
    take_requests,
)
from specsim.properties.strategies import draft_cache as draft_cache_strategies


def draft_slots_are_contiguous(backend: Backend, case: Case) -> None:
    """A request's draft slots are those of the positions after its committed length, beam after beam."""
    slots = outputs_of(backend, "assign_draft_cache_locs", case)["out_cache_loc"]
    width = case["topk"] * case["num_steps"]
    for request, row in enumerate(case["req_pool_indices"].tolist()):
        first = int(case["seq_lens"][request])
        expected = case["req_to_token"][row, first : first + width]
        require_equal(f"the slots of request {request}", slots[request * width : (request + 1) * width], expected)


def steps_transpose_the_slots(backend: Backend, case: Case) -> None:
    """Row s holds the s-th slot of every beam, so that transposing back gives the flat slots."""
    step_cache_loc = outputs_of(backend, "per_step_draft_out_cache_loc", case)["step_cache_loc"]
    require_equal("the number of steps", len(step_cache_loc), case["num_steps"])
    require_equal("the slots, transposed back", step_cache_loc.T.reshape(-1), case["out_cache_loc"])


def kv_indptr_counts_prefix_and_steps(backend: Backend, case: Case) -> None:
    """At step s a beam attends to the committed length and s+1 entries of its own."""
    kv_indptr = outputs_of(backend, "generate_draft_decode_kv_indices", case)["kv_indptr"]
    for step in range(case["num_steps"]):
        expected = np.repeat(np.asarray(case["seq_lens"], dtype=np.int64), case["topk"]) + step + 1
        require_equal(f"kv_indptr[{step}, 0]", kv_indptr[step, 0], 0)
        require_equal(f"the steps of kv_indptr[{step}]", np.diff(kv_indptr[step]), expected)


def beams_read_the_prefix(backend: Backend, case: Case) -> None:
    """The first slots of every beam are those of the committed positions, in order."""
    listed = outputs_of(backend, "generate_draft_decode_kv_indices", case)
    for step in range(case["num_steps"]):
        for beam in range(len(case["positions"])):
            request = beam // case["topk"]
            length = int(case["seq_lens"][request])
            start = listed["kv_indptr"][step, beam]
            prefix = case["req_to_token"][case["req_pool_indices"][request], :length]
            got = listed["kv_indices"][step, start : start + length]
            require_equal(f"the prefix of beam {beam} at step {step}", got, prefix)


def beams_read_what_they_wrote(backend: Backend, case: Case) -> None:
    """After the prefix a beam reads the slots that its own place wrote in the steps so far."""
    listed = outputs_of(backend, "generate_draft_decode_kv_indices", case)
    asked = {name: case[name] for name in ("req_pool_indices", "req_to_token", "seq_lens", "topk", "num_steps")}
    out_cache_loc = outputs_of(backend, "assign_draft_cache_locs", asked)["out_cache_loc"]
    sizes = {"topk": case["topk"], "num_steps": case["num_steps"]}
    written = outputs_of(backend, "per_step_draft_out_cache_loc", {"out_cache_loc": out_cache_loc, **sizes})
    for step in range(case["num_steps"]):
        for beam in range(len(case["positions"])):
            end = listed["kv_indptr"][step, beam + 1]
            own = listed["kv_indices"][step, end - step - 1 : end]
            expected = written["step_cache_loc"][: step + 1, beam]
            require_equal(f"the own slots of beam {beam} at step {step}", own, expected)


def draft_slots_do_not_depend_on_the_batch(backend: Backend, case: Case) -> None:
    """A request's draft slots are the same alone, and in any order of the batch."""
    num_requests = len(case["seq_lens"])
    whole = outputs_of(backend, "assign_draft_cache_locs", case)["out_cache_loc"]
    for requests in arrangements(num_requests):
        part = take_requests(case, ("req_pool_indices", "seq_lens"), num_requests, requests)
        got = outputs_of(backend, "assign_draft_cache_locs", part)["out_cache_loc"]
        require_equal(f"the slots of requests {requests}", got, take_blocks(whole, num_requests, requests))


def kv_lists_do_not_depend_on_the_batch(backend: Backend, case: Case) -> None:
    """The slots that a beam reads are the same alone, and in any order of the batch."""
    num_requests, topk = len(case["seq_lens"]), case["topk"]
    whole = outputs_of(backend, "generate_draft_decode_kv_indices", case)
    for requests in arrangements(num_requests):
        part = take_requests(case, ("req_pool_indices", "seq_lens", "positions"), num_requests, requests)
        got = outputs_of(backend, "generate_draft_decode_kv_indices", part)
        for step in range(case["num_steps"]):
            place = 0
            for request in requests:
                start, end = whole["kv_indptr"][step, [request * topk, (request + 1) * topk]]
                expected = whole["kv_indices"][step, start:end]
                listed = got["kv_indices"][step, place : place + len(expected)]
                require_equal(f"the list of request {request} at step {step} in {requests}", listed, expected)
                place += len(expected)


def _lists() -> SearchStrategy[Case]:
    return draft_cache_strategies.generate_draft_decode_kv_indices()


_ASSIGN = ("assign_draft_cache_locs",)
_PER_STEP = ("per_step_draft_out_cache_loc",)
_GENERATE = ("generate_draft_decode_kv_indices",)

PROPERTIES = (
    state("draft_cache", draft_slots_are_contiguous, draft_cache_strategies.assign_draft_cache_locs, _ASSIGN, "P51"),
    state(
        "draft_cache",
        draft_slots_do_not_depend_on_the_batch,
        draft_cache_strategies.assign_draft_cache_locs,
        _ASSIGN,
        "P31",
    ),
    state("draft_cache", steps_transpose_the_slots, draft_cache_strategies.per_step_draft_out_cache_loc, _PER_STEP),
    state("draft_cache", kv_indptr_counts_prefix_and_steps, _lists, _GENERATE, "P51"),
    state("draft_cache", beams_read_the_prefix, _lists, _GENERATE, "P40"),
    state("draft_cache", beams_read_what_they_wrote, _lists, (*_GENERATE, *_ASSIGN, *_PER_STEP), "P40"),
    state("draft_cache", kv_lists_do_not_depend_on_the_batch, _lists, _GENERATE, "P31"),
)
