"""Laws of ragged verification: windows and their padding, metadata, the cut of an acceptance, and commits."""

from itertools import pairwise
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Array, Case, outputs_of, require, require_equal, states
from specsim.properties.laws.links import links_of_chains
from specsim.properties.operations.acceptance.chains import taken
from specsim.properties.operations.scheduled import strategy as strategies

_WINDOW, _SCATTER = "ragged_verify_window", "scatter_compact_to_strided"
_PAD, _METADATA = "pad_verify_lens_to_bucket", "ragged_verify_metadata"
_CAP, _INJECT = "cap_accepted_drafts", "commit_inject_layout"


def a_window_holds_the_first_nodes_of_each_request(backend: Backend, case: Case) -> None:
    """Rows are the root and the next drafts of one request after another, at positions and slots after its text."""
    window = outputs_of(backend, _WINDOW, case)
    width, place = case["candidates"].shape[1], 0
    for request, (own, length) in enumerate(zip(case["verify_lens"].tolist(), case["seq_lens"].tolist(), strict=True)):
        rows = slice(place, place + own)
        slots = case["req_to_token"][case["req_pool_indices"][request], length : length + own]
        require_equal(f"qo_indptr[{request}]", window["qo_indptr"][request], place)
        require_equal(f"tokens of request {request}", window["input_ids"][rows], case["candidates"][request, :own])
        require_equal(f"positions of request {request}", window["positions"][rows], range(length, length + own))
        require_equal(f"slots of request {request}", window["out_cache_loc"][rows], slots)
        require_equal(f"nodes of request {request}", window["window_index"][rows], request * width + np.arange(own))
        place += own
    require_equal("qo_indptr[-1]", window["qo_indptr"][-1], place)


def padding_touches_no_live_slot(backend: Backend, case: Case) -> None:
    """A row of padding names no node and writes the dump slot alone."""
    window, live = outputs_of(backend, _WINDOW, case), int(case["verify_lens"].sum())
    num_padding = case["num_tokens"] - live
    for name, value in (("input_ids", 0), ("positions", 0), ("out_cache_loc", 0), ("window_index", -1)):
        require_equal(f"{name} of the padding", window[name][live:], [value] * num_padding)


def scattered_rows_are_those_that_were_gathered(backend: Backend, case: Case) -> None:
    """Rows that a window gathers come back to their nodes, all other nodes have 0, and padding goes nowhere."""
    window = {name: value for name, value in case.items() if name not in ("rows", "padding")}
    index = outputs_of(backend, _WINDOW, window)["window_index"]
    is_live = index >= 0
    gathered = np.full((len(index), case["rows"].shape[1]), case["padding"], dtype=np.float32)
    gathered[is_live] = case["rows"][index[is_live]]
    num_draft_tokens = case["candidates"].shape[1]
    arguments = {"values": gathered, "verify_lens": case["verify_lens"], "num_draft_tokens": num_draft_tokens}
    strided = outputs_of(backend, _SCATTER, arguments)["strided"]
    expected = np.zeros_like(case["rows"])
    expected[index[is_live]] = case["rows"][index[is_live]]
    require_equal("strided", strided, expected)


def rows_that_are_left_go_to_padding(backend: Backend, case: Case) -> None:
    """Padded lengths fill the graph: real ones stay, padding gets equal shares, the first ones one row more.

    Without padding requests the last real one gets all of it.
    """
    lens = case["verify_lens"].astype(np.int64)
    got = _padded(backend, {**case, "max_verify_len": strategies.NO_CAP})
    require_equal("the sum of padded_verify_lens", int(got.sum()), case["num_tokens"])
    padding = got[len(lens) :]
    if len(padding):
        require_equal("padded_verify_lens of the batch", got[: len(lens)], lens)
        falls = bool((np.diff(padding) <= 0).all()) and padding[0] - padding[-1] <= 1
        require(falls, "lengths of the padding", padding.tolist(), "equal, or one more at the front")
    else:
        require_equal("padded_verify_lens but the last", got[:-1], lens[:-1])


def dense_kernels_have_whole_chains_at_most(backend: Backend, case: Case) -> None:
    """A longest length cuts what would be padded beyond it, and nothing else."""
    whole = _padded(backend, {**case, "max_verify_len": strategies.NO_CAP})
    require_equal("padded_verify_lens", _padded(backend, case), np.minimum(whole, case["max_verify_len"]))


def ragged_offsets_add_up_the_lengths(backend: Backend, case: Case) -> None:
    """A request has its rows as queries, and these and its committed positions as keys; offsets start at 0."""
    metadata = outputs_of(backend, _METADATA, case)
    lens = case["verify_lens"].astype(np.int64)
    keys = case["seq_lens"].astype(np.int64) + lens
    require_equal("cache_seqlens", metadata["cache_seqlens"], keys)
    require_equal("cu_seqlens_q", metadata["cu_seqlens_q"], np.cumsum([0, *lens]))
    require_equal("cu_seqlens_k", metadata["cu_seqlens_k"], np.cumsum([0, *keys]))


def equal_lengths_are_a_uniform_verify(backend: Backend, case: Case) -> None:
    """Where every request verifies as many rows, the metadata are those of a verify that shares its rows."""
    uniform = {name: value for name, value in case.items() if name != "verify_lens"}
    uniform["num_tokens"] = int(case["verify_lens"].sum())
    expected = outputs_of(backend, "target_verify_metadata", uniform)
    for name, got in outputs_of(backend, _METADATA, case).items():
        require_equal(name, got, expected[name])


def a_cut_keeps_what_was_scheduled(backend: Backend, case: Case) -> None:
    """Drafts after the cut are lost, and counted unless they were never computed."""
    cut = outputs_of(backend, _CAP, case)
    counts = zip(case["num_accepted_drafts"].tolist(), case["verify_lens"].tolist(), strict=True)
    for request, (accepted, own) in enumerate(counts):
        lost = max(accepted - own + 1, 0)
        require_equal(f"num_kept_drafts[{request}]", cut["num_kept_drafts"][request], accepted - lost)
        following = case["candidates"][request, own] if lost else case["bonus_tokens"][request]
        require_equal(f"cut_tokens[{request}]", cut["cut_tokens"][request], following)
        require_equal(f"cap_trim_lens[{request}]", cut["cap_trim_lens"][request], 0 if case["is_compact"] else lost)


def what_comes_after_the_cut_decides_nothing(backend: Backend, case: Case) -> None:
    """How far a walk went past the cut, with which token it ended there, and which drafts lie there, is not read.

    It is counted, though, where all rows were computed.
    """
    expected = outputs_of(backend, _CAP, case)
    is_past: Array = case["num_accepted_drafts"] >= case["verify_lens"]
    after = np.arange(case["candidates"].shape[1])[None, :] > case["verify_lens"][:, None]
    for number, token in ((0, 0), (case["candidates"].shape[1] - 1, 2**31 - 1)):
        count = case["num_accepted_drafts"].copy()
        count[is_past] = np.maximum(case["verify_lens"], number)[is_past]
        candidates = np.where(after, token, case["candidates"])
        bonus_tokens = np.where(is_past, token, case["bonus_tokens"]).astype(case["bonus_tokens"].dtype)
        changed = {**case, "candidates": candidates, "num_accepted_drafts": count, "bonus_tokens": bonus_tokens}
        for name, got in outputs_of(backend, _CAP, changed).items():
            if name != "cap_trim_lens" or case["is_compact"]:
                require_equal(f"{name} with {token} after the cut", got, expected[name])


def greedy_cuts_do_not_need_the_rest(backend: Backend, case: Case) -> None:
    """Greedy acceptance outputs the same tokens whether the target saw all drafts or the scheduled ones alone."""
    outputs = [
        _cut(backend, case["candidates"], *_walk_greedily(backend, case["candidates"], target), case["verify_lens"])
        for target in (case["target_predict"], case["other_predict"])
    ]
    for request, own in enumerate(case["verify_lens"].tolist()):
        row, target = case["candidates"][request].tolist(), case["target_predict"][request].tolist()
        kept = next((place for place in range(own - 1) if row[place + 1] != target[place]), own - 1)
        expected = [*row[1 : kept + 1], target[kept]]
        for name, got in zip(("all", "scheduled"), outputs, strict=True):
            require(got[request] == expected, f"output of request {request}, {name} drafts", got[request], expected)


def sampled_cuts_do_not_need_the_rest(backend: Backend, case: Case) -> None:
    """Chains that are verified token by token output the same by the same coins, whatever rows after the cut say."""
    whole, other = (_sample(backend, case, target) for target in (case["chains"]["target_probs"], case["other_probs"]))
    require(whole == other, "output with other rows after the cut", other, whole)


def a_cut_chain_accepts_what_the_cap_keeps(backend: Backend, case: Case) -> None:
    """A chain of the scheduled drafts alone accepts, by the same coins, those that the cap leaves of the whole one."""
    chains, lens = case["chains"], case["verify_lens"]
    cut = taken(chains, range(len(lens)), (chains["cu_num_drafts"][:-1] + lens - 1).tolist())
    fresh = outputs_of(backend, "chain_speculative_sampling", cut)
    for request, kept in enumerate(_sample(backend, case, chains["target_probs"])):
        require_equal(f"drafts of request {request}", fresh["num_accepted_drafts"][request], len(kept) - 1)
        got = fresh["output_tokens"][request, : len(kept) - 1].tolist()
        require(got == kept[:-1], f"accepted drafts of request {request}", got, kept[:-1])
        if len(kept) < lens[request]:
            last = int(fresh["output_tokens"][request, len(kept) - 1])
            require(last == kept[-1], f"token before the cut of request {request}", last, kept[-1])


def committed_rows_alone_are_injected(backend: Backend, case: Case) -> None:
    """The root and the accepted drafts go to the slots of their positions, within the gate; no other row goes anywhere.

    In a ring they go to the places of the request's own row, one position after another.
    """
    layout = outputs_of(backend, _INJECT, case)
    width, ring = case["num_draft_tokens"], case["ring_size"]
    rows = zip(case["req_pool_indices"].tolist(), case["seq_lens"].tolist(), strict=True)
    for request, (row, length) in enumerate(rows):
        own = slice(request * width, (request + 1) * width)
        require_equal(f"positions of request {request}", layout["positions"][own], range(length, length + width))
        gate = width if case["verify_lens"] is None else int(case["verify_lens"][request])
        count = min(int(case["commit_lens"][request]), gate)
        if ring:
            places = [row * ring + position % ring for position in range(length, length + count)]
        else:
            slots = case["req_to_token"][row, length : length + count]
            places = (slots if case["slot_map"] is None else case["slot_map"][slots]).tolist()
        require_equal(f"inject_loc of request {request}", layout["inject_loc"][own], places + [-1] * (width - count))


def _padded(backend: Backend, case: Case) -> Array:
    return np.asarray(outputs_of(backend, _PAD, case)["padded_verify_lens"]).astype(np.int64)


def _walk_greedily(backend: Backend, candidates: Array, target: Array) -> tuple[Array, Array]:
    """Return accepted drafts and the token after them of chains that the target saw whole."""
    links = {**links_of_chains(candidates), "target_predict": target, "num_steps": candidates.shape[1] - 1}
    walked = outputs_of(backend, "verify_tree_greedy", links)
    count = walked["num_accepted_drafts"]
    return count, walked["predict"][walked["accept_index"][np.arange(len(count)), count]]


def _sample(backend: Backend, case: Case, target_probs: Array) -> list[list[int]]:
    """Return the output of whole chains that are cut afterwards."""
    chains = case["chains"]
    walked = outputs_of(backend, "chain_speculative_sampling", {**chains, "target_probs": target_probs})
    count, starts = walked["num_accepted_drafts"], chains["cu_num_drafts"]
    candidates = np.zeros((len(count), int(max(np.diff(starts), default=0)) + 1), dtype=np.int64)
    for request, (start, end) in enumerate(pairwise(starts.tolist())):
        candidates[request, 1 : end - start + 1] = chains["draft_tokens"][start:end]
    return _cut(backend, candidates, count, walked["output_tokens"][np.arange(len(count)), count], case["verify_lens"])


def _cut(backend: Backend, candidates: Array, accepted: Any, bonus: Any, lens: Array) -> list[list[int]]:
    """Return the output of each request after the cut of an acceptance of whole chains."""
    arguments = {
        "candidates": candidates,
        "num_accepted_drafts": accepted,
        "bonus_tokens": bonus,
        "verify_lens": lens,
        "is_compact": False,
    }
    cut = outputs_of(backend, _CAP, arguments)
    return [
        [*candidates[request, 1 : count + 1].tolist(), int(cut["cut_tokens"][request])]
        for request, count in enumerate(cut["num_kept_drafts"].tolist())
    ]


PROPERTIES = states(
    "scheduled",
    (a_window_holds_the_first_nodes_of_each_request, _WINDOW),
    (padding_touches_no_live_slot, _WINDOW),
    (scattered_rows_are_those_that_were_gathered, strategies.windows_of_rows, (_SCATTER, _WINDOW)),
    (rows_that_are_left_go_to_padding, _PAD),
    (dense_kernels_have_whole_chains_at_most, _PAD),
    (ragged_offsets_add_up_the_lengths, _METADATA),
    (equal_lengths_are_a_uniform_verify, strategies.whole_windows, (_METADATA, "target_verify_metadata")),
    (a_cut_keeps_what_was_scheduled, _CAP),
    (what_comes_after_the_cut_decides_nothing, _CAP),
    (greedy_cuts_do_not_need_the_rest, strategies.greedy_walks, (_CAP, "verify_tree_greedy")),
    (sampled_cuts_do_not_need_the_rest, strategies.sampled_walks, (_CAP, "chain_speculative_sampling")),
    (a_cut_chain_accepts_what_the_cap_keeps, strategies.sampled_walks, (_CAP, "chain_speculative_sampling")),
    (committed_rows_alone_are_injected, _INJECT),
)
