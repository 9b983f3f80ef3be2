"""Laws of DFLASH's operations, and of those of chains that it takes for the acceptance and the commit of a block."""

from fractions import Fraction

import numpy as np

from specsim.conformance.backend import Backend
from specsim.counts import ceil_to
from specsim.properties.laws.checks import Case, outputs_of, require, require_equal, states
from specsim.properties.laws.links import links_of_chains
from specsim.properties.operations.dflash import strategy as strategies
from specsim.properties.strategies.limits import limits


def a_block_is_the_root_and_masks(backend: Backend, case: Case) -> None:
    """A block starts with the token that was output last, after the text, and asks for every other one."""
    outputs, width = outputs_of(backend, "prepare_block_draft", case), case["num_draft_tokens"]
    for request, (root, length) in enumerate(zip(case["bonus_tokens"], case["seq_lens"].tolist(), strict=True)):
        own = slice(request * width, (request + 1) * width)
        expected = [int(root), *[case["mask_token"]] * (width - 1)]
        require_equal(f"input_ids of request {request}", outputs["input_ids"][own], expected)
        require_equal(f"positions of request {request}", outputs["positions"][own], range(length, length + width))


def a_block_sees_whole_pages_of_the_window(backend: Backend, case: Case) -> None:
    """A table starts with the page of the first visible position and ends with the block; nothing is after it."""
    outputs, width = outputs_of(backend, "block_draft_metadata", case), case["num_draft_tokens"]
    page_size, slots = case["page_size"], case["req_to_token"]
    for request, length in enumerate(case["seq_lens"].tolist()):
        start, table = int(outputs["window_starts"][request]), outputs["page_table"][request].tolist()
        first_visible = max(length - case["draft_window"], 0)
        require_equal(f"start of request {request} in its page", start % page_size, 0)
        require_equal(f"page of the start of request {request}", start // page_size, first_visible // page_size)
        seen = slots[case["req_pool_indices"][request], start : length + width].tolist()
        require_equal(f"cache_seqlens[{request}]", outputs["cache_seqlens"][request], len(seen))
        require_equal(f"page_table[{request}]", table, seen + [0] * (len(table) - len(seen)))
    require_equal("cu_seqlens_q", outputs["cu_seqlens_q"], np.arange(len(case["seq_lens"]) + 1) * width)


def exactly_k_tokens_stay(backend: Backend, case: Case) -> None:
    """The k best tokens of a row stay as they are, of equal ones those with lower ids; nothing else has a chance."""
    got = outputs_of(backend, "keep_top_k_exactly", case)["filtered_logits"]
    if case["top_k"].max(initial=0) >= case["logits"].shape[1]:
        return
    for place, row in enumerate(case["logits"].astype(np.float64)):
        count = int(case["top_k"][place // case["num_draft_tokens"]])
        best_first = sorted(range(len(row)), key=lambda token: (-row[token], token))
        kept = got[place].astype(np.float64)
        expected = [row[token] if token in best_first[:count] else -np.inf for token in range(len(row))]
        if limits().ties_are_free:
            is_left = (kept == row) | np.isneginf(kept)
            require_equal(f"whether filtered_logits[{place}] are the given ones", is_left, np.ones_like(is_left))
            kept, expected = np.sort(kept), sorted(expected)
        require_equal(f"filtered_logits[{place}]", kept, expected)


def a_request_that_keeps_all_leaves_every_row(backend: Backend, case: Case) -> None:
    """Beside a request that keeps the whole vocabulary no row is filtered here: what knows of ties comes next."""
    changed = {**case, "top_k": case["top_k"].copy()}
    changed["top_k"][-1:] = case["logits"].shape[1]
    got = outputs_of(backend, "keep_top_k_exactly", changed)["filtered_logits"]
    require_equal("filtered_logits", got.astype(np.float64), case["logits"].astype(np.float64))


def output_tokens_come_first(backend: Backend, case: Case) -> None:
    """The accepted drafts and the bonus token come first, then the rejected drafts, then a 0 that no one drafted."""
    got = outputs_of(backend, "fill_block_tokens", case)["out_tokens"]
    for request, drafts in enumerate(case["num_accepted_drafts"].tolist()):
        _, *proposed = case["candidates"][request].tolist()
        expected = [*proposed[:drafts], int(case["bonus_tokens"][request]), *proposed[drafts + 1 :]]
        expected += [0] * (len(proposed) + 1 - len(expected))
        require_equal(f"out_tokens[{request}]", got[request], expected)


def a_block_is_accepted_up_to_its_first_disagreement(backend: Backend, case: Case) -> None:
    """The greedy walk along a chain counts the drafts before the first that is not the target's choice."""
    candidates, choices = case["candidates"], case["target_predict"]
    width = candidates.shape[1]
    case = {**links_of_chains(candidates), "target_predict": choices, "num_steps": width - 1}
    walked = outputs_of(backend, "verify_tree_greedy", case)
    drafts = np.cumprod(candidates[:, 1:] == choices[:, :-1], axis=1, dtype=np.int64).sum(axis=1)
    require_equal("num_accepted_drafts", walked["num_accepted_drafts"], drafts)
    for request, count in enumerate(drafts.tolist()):
        last = walked["accept_index"][request, count]
        require_equal(f"last node of request {request}", last, request * width + count)
        require_equal(f"bonus token of request {request}", walked["predict"][last], choices[request, count])


def kept_pages_end_with_the_last_token(backend: Backend, case: Case) -> None:
    """Of a block on pages the offsets before ``clamp(min(ceil_to(L+c, ps), L+N) - L, 0, N)`` stay."""
    width, page_size = case["num_draft_tokens"], case["page_size"]
    offset = np.arange(width)
    kept = np.array(case["kept"], dtype=np.int64)
    seq_lens = case["seq_lens"]
    evict_mask = (offset >= kept[:, None]).reshape(-1)
    arguments = {"seq_lens": seq_lens, "evict_mask": evict_mask, "num_draft_tokens": width, "page_size": page_size}
    evicted = outputs_of(backend, "align_evict_mask_to_page_size", arguments)["evict_mask"].reshape(-1, width)
    for request, (length, count) in enumerate(zip(case["seq_lens"].tolist(), case["kept"], strict=True)):
        keep = min(max(min(ceil_to(length + count, page_size), length + width) - length, 0), width)
        require_equal(f"slots of request {request} that go back", evicted[request], offset >= keep)


def features_are_spread_over_the_layers(backend: Backend, case: tuple[int, int]) -> None:
    """One feature is of the middle layer; several are spread evenly from layer 1 to the fourth from the end."""
    num_layers, num_features = case
    got = backend.host("target_feature_layers")(num_layers, num_features)
    if num_features == 1:
        require(tuple(got) == (num_layers // 2,), "layers", got, (num_layers // 2,))
        return
    step = Fraction(num_layers - 4, num_features - 1)
    expected = tuple(round(1 + place * step) for place in range(num_features))
    require(tuple(got) == expected, "layers", got, expected)


PROPERTIES = states(
    "dflash",
    (a_block_is_the_root_and_masks, "prepare_block_draft", "P17"),
    (a_block_sees_whole_pages_of_the_window, "block_draft_metadata", "P42"),
    (exactly_k_tokens_stay, "keep_top_k_exactly", "P13"),
    (a_request_that_keeps_all_leaves_every_row, "keep_top_k_exactly", "P13"),
    (output_tokens_come_first, "fill_block_tokens", "P25"),
    (a_block_is_accepted_up_to_its_first_disagreement, strategies.chains, "verify_tree_greedy", "P22"),
    (kept_pages_end_with_the_last_token, strategies.committed_blocks, "align_evict_mask_to_page_size", "P42"),
    (features_are_spread_over_the_layers, strategies.layer_choices, "target_feature_layers"),
)
