"""Laws of verification, continued: lengths and pages of its forward, and the target's greedy choice."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, arrangements, batch_of, outputs_of, require, require_equal, states
from specsim.properties.strategies.limits import limits


def keys_are_the_prefix_and_the_new_tokens(backend: Backend, case: Case) -> None:
    """A request has its committed length and its share of the tokens as keys, whatever a tree usually holds."""
    metadata = outputs_of(backend, "target_verify_metadata", case)
    lengths = np.asarray(case["seq_lens"], dtype=np.int64)
    share = case["num_tokens"] // max(len(lengths), 1)
    require_equal("cache_seqlens", metadata["cache_seqlens"], lengths + share)


def query_offsets_share_the_tokens(backend: Backend, case: Case) -> None:
    """Every request has an equal share of the queries, and together they have all."""
    offsets = outputs_of(backend, "target_verify_metadata", case)["cu_seqlens_q"]
    num_requests = len(case["seq_lens"])
    require_equal("cu_seqlens_q", offsets, np.arange(num_requests + 1) * (case["num_tokens"] // max(num_requests, 1)))


def key_offsets_add_up(backend: Backend, case: Case) -> None:
    """Key offsets start at 0, step by each request's keys, and end at all lengths and tokens together."""
    metadata = outputs_of(backend, "target_verify_metadata", case)
    offsets = metadata["cu_seqlens_k"]
    require_equal("cu_seqlens_k[0]", offsets[0], 0)
    require_equal("the steps of cu_seqlens_k", np.diff(offsets), metadata["cache_seqlens"])
    require_equal("cu_seqlens_k[-1]", offsets[-1], int(np.sum(case["seq_lens"])) + case["num_tokens"])


def pages_are_those_of_the_page_starts(backend: Backend, case: Case) -> None:
    """A page number times the page size is the first slot of the page that the row names there."""
    page_table = outputs_of(backend, "target_verify_metadata", case)["page_table"]
    page_size = case["page_size"]
    for request, row in enumerate(case["req_pool_indices"].tolist()):
        slots = case["req_to_token"][row, : case["max_seq_len_k"] : page_size]
        first_slots = slots - slots % page_size
        require_equal(f"the page starts of request {request}", page_table[request] * page_size, first_slots)


def metadata_does_not_depend_on_the_batch(backend: Backend, case: Case) -> None:
    """A request's keys and pages are the same alone, and in any order of the batch."""
    num_requests = len(case["seq_lens"])
    whole = outputs_of(backend, "target_verify_metadata", case)
    for requests in arrangements(num_requests):
        part = batch_of("target_verify_metadata", case, requests)
        part["num_tokens"] = case["num_tokens"] // num_requests * len(requests) if num_requests else 0
        got = outputs_of(backend, "target_verify_metadata", part)
        for name in ("cache_seqlens", "page_table"):
            require_equal(f"{name} of requests {requests}", got[name], whole[name][requests])


def greedy_choice_is_the_largest_logit(backend: Backend, case: Case) -> None:
    """No token has a larger logit than the chosen one, and none before it has an equal one."""
    target_predict = outputs_of(backend, "argmax_target_predict", case)["target_predict"]
    for row, (chosen, logits) in enumerate(zip(target_predict.tolist(), case["logits"].tolist(), strict=True)):
        require(0 <= chosen < len(logits), f"the choice of row {row}", chosen, f"0 to {len(logits) - 1}")
        if limits().ties_are_free:
            require_equal(f"the logit of the choice of row {row}", logits[chosen], max(logits))
        else:
            require_equal(f"the choice of row {row}", chosen, logits.index(max(logits)))


PROPERTIES = states(
    "verify",
    (keys_are_the_prefix_and_the_new_tokens, "target_verify_metadata", "P60"),
    (query_offsets_share_the_tokens, "target_verify_metadata", "P60"),
    (key_offsets_add_up, "target_verify_metadata", "P51"),
    (pages_are_those_of_the_page_starts, "target_verify_metadata", "P42"),
    (metadata_does_not_depend_on_the_batch, "target_verify_metadata", "P31"),
    (greedy_choice_is_the_largest_logit, "argmax_target_predict", "P01"),
)
