"""Laws of the draft cache: the slots that drafts write, and those that they read."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import (
    Array,
    Case,
    arrangements,
    batch_of,
    outputs_of,
    require_equal,
    require_one_by_one,
    states,
)
from specsim.properties.operations.draft_cache import strategy as strategies


def beams_follow_one_another(backend: Backend, case: Case) -> None:
    """A beam's slots are those of consecutive positions; the next beam begins after them, or on the next page there.

    On a page of its own a beam leaves out as many slots as the text has on its last page.
    """
    slots = outputs_of(backend, _ASSIGN, case)["out_cache_loc"].reshape(-1, case["num_steps"])
    for request, row in enumerate(case["req_pool_indices"].tolist()):
        for beam, first in enumerate(_first_positions(case, request)):
            expected = case["req_to_token"][row, first : first + case["num_steps"]]
            require_equal(f"slots of beam {beam} of request {request}", slots[request * case["topk"] + beam], expected)


def copies_bring_the_end_of_the_text_to_each_beam(backend: Backend, case: Case) -> None:
    """What the text has on its last page is copied to the front of every other beam's first page, in that order."""
    outputs = outputs_of(backend, _ASSIGN, case)
    pairs: list[tuple[int, int]] = []
    for request, row in enumerate(case["req_pool_indices"].tolist()):
        slots, (length, *others) = case["req_to_token"][row], _first_positions(case, request)
        tail = length % case["page_size"]
        pairs += [(slots[length - back], slots[first - back]) for first in others for back in range(tail, 0, -1)]
    expected = np.array(pairs + [(0, 0)] * (case["num_copies"] - len(pairs)), dtype=np.int64).reshape(-1, 2)
    require_equal("source_slots", outputs["source_slots"], expected[:, 0])
    require_equal("target_slots", outputs["target_slots"], expected[:, 1])


def _first_positions(case: Case, request: int) -> list[int]:
    """Return the position of the first entry of each beam, one beam after another."""
    page_size = case["page_size"] if case["topk"] > 1 else 1
    firsts = [int(case["seq_lens"][request])]
    for _ in range(case["topk"] - 1):
        next_page = (firsts[-1] + case["num_steps"] - 1) // page_size + 1
        firsts.append(next_page * page_size + firsts[0] % page_size)
    return firsts


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
    out_cache_loc = outputs_of(backend, "assign_draft_cache_locs", _assignment(case))["out_cache_loc"]
    sizes = {"topk": case["topk"], "num_steps": case["num_steps"]}
    written = outputs_of(backend, "per_step_draft_out_cache_loc", {"out_cache_loc": out_cache_loc, **sizes})
    for step in range(case["num_steps"]):
        for beam in range(len(case["positions"])):
            end = listed["kv_indptr"][step, beam + 1]
            own = listed["kv_indices"][step, end - step - 1 : end]
            expected = written["step_cache_loc"][: step + 1, beam]
            require_equal(f"the own slots of beam {beam} at step {step}", own, expected)


def pages_hold_what_the_list_names(backend: Backend, case: Case) -> None:
    """Read page by page, prefix and own entries are those that are listed slot by slot, once the copies are made."""
    got = outputs_of(backend, _CASCADE, case)
    copies = outputs_of(backend, _ASSIGN, _assignment(case))
    source_of = dict(zip(copies["target_slots"].tolist(), copies["source_slots"].tolist(), strict=True))
    asked = {name: value for name, value in case.items() if name != "max_prefix_len"}
    asked["positions"] = np.repeat(case["seq_lens"], case["topk"]).astype(np.int64)
    listed = outputs_of(backend, _GENERATE, asked)
    for step in range(case["num_steps"]):
        for beam in range(len(asked["positions"])):
            request = beam // case["topk"]
            if case["req_pool_indices"][request] == 0:
                continue
            prefix = _slots_on(got["page_table"][request], got["cache_seqlens"][request], case["page_size"])
            own = _slots_on(got["expand_page_table"][beam], got["expand_cache_seqlens"][step, beam], case["page_size"])
            start, end = listed["kv_indptr"][step, [beam, beam + 1]]
            read = [*prefix, *(source_of.get(slot, slot) for slot in own)]
            require_equal(f"slots of beam {beam} at step {step}", read, listed["kv_indices"][step, start:end])


def the_first_pass_has_whole_pages(backend: Backend, case: Case) -> None:
    """The first pass ends with a page, and each request's beams are its queries; what no pass reads is page 0."""
    got = outputs_of(backend, _CASCADE, case)
    page_size, lengths = case["page_size"], case["seq_lens"].astype(np.int64)
    require_equal("cu_seqlens_q", got["cu_seqlens_q"], np.arange(len(lengths) + 1) * case["topk"])
    require_equal("cache_seqlens", got["cache_seqlens"], lengths - lengths % page_size)
    for name, keys in (("page_table", got["cache_seqlens"]), ("expand_page_table", got["expand_cache_seqlens"][-1])):
        unused = np.arange(got[name].shape[1]) * page_size >= keys[:, None]
        require_equal(f"columns of {name} that no one reads", got[name][unused], 0 * got[name][unused])


def passes_do_not_depend_on_the_batch(backend: Backend, case: Case) -> None:
    """A request's part of both passes is the same alone, and in any order of the batch."""
    parts = ("cache_seqlens", "page_table", "expand_page_table", "expand_cache_seqlens")
    require_one_by_one(backend, _CASCADE, case, parts)


def _assignment(case: Case) -> Case:
    """Return the arguments that assign the slots of the same drafts, with room for every copy."""
    names = ("req_pool_indices", "req_to_token", "seq_lens", "topk", "num_steps", "page_size")
    drafts = {name: case[name] for name in names}
    room = len(case["seq_lens"]) * case["topk"] * case["page_size"]
    return {**drafts, "num_copies": strategies.room_for_copies(drafts, room)}


def _slots_on(pages: Array, num_keys: int, page_size: int) -> list[int]:
    """Return the first so many slots of a list of pages."""
    slots = pages.astype(np.int64)[:, None] * page_size + np.arange(page_size)
    return [*slots.reshape(-1)[:num_keys].tolist()]


def draft_slots_do_not_depend_on_the_batch(backend: Backend, case: Case) -> None:
    """A request's draft slots are the same alone, and in any order of the batch."""
    require_one_by_one(backend, _ASSIGN, case, ["out_cache_loc"])


def kv_lists_do_not_depend_on_the_batch(backend: Backend, case: Case) -> None:
    """The slots that a beam reads are the same alone, and in any order of the batch."""
    num_requests, topk = len(case["seq_lens"]), case["topk"]
    whole = outputs_of(backend, "generate_draft_decode_kv_indices", case)
    for requests in arrangements(num_requests):
        part = batch_of("generate_draft_decode_kv_indices", case, requests)
        got = outputs_of(backend, "generate_draft_decode_kv_indices", part)
        for step in range(case["num_steps"]):
            place = 0
            for request in requests:
                start, end = whole["kv_indptr"][step, [request * topk, (request + 1) * topk]]
                expected = whole["kv_indices"][step, start:end]
                listed = got["kv_indices"][step, place : place + len(expected)]
                require_equal(f"the list of request {request} at step {step} in {requests}", listed, expected)
                place += len(expected)


_ASSIGN = "assign_draft_cache_locs"
_GENERATE = "generate_draft_decode_kv_indices"
_CASCADE = "draft_decode_cascade_metadata"

PROPERTIES = states(
    "draft_cache",
    (beams_follow_one_another, _ASSIGN, "P51"),
    (copies_bring_the_end_of_the_text_to_each_beam, _ASSIGN, "P42"),
    (draft_slots_do_not_depend_on_the_batch, _ASSIGN, "P31"),
    (steps_transpose_the_slots, "per_step_draft_out_cache_loc"),
    (kv_indptr_counts_prefix_and_steps, _GENERATE, "P51"),
    (beams_read_the_prefix, _GENERATE, "P40"),
    (beams_read_what_they_wrote, (_GENERATE, _ASSIGN, "per_step_draft_out_cache_loc"), "P40"),
    (kv_lists_do_not_depend_on_the_batch, _GENERATE, "P31"),
    (pages_hold_what_the_list_names, (_CASCADE, _GENERATE, _ASSIGN), "P42"),
    (the_first_pass_has_whole_pages, _CASCADE, "P42"),
    (passes_do_not_depend_on_the_batch, _CASCADE, "P31"),
)
