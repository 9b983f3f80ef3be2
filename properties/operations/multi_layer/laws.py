"""Laws of multi-layer drafts: each layer sees one token further, from where it last saw a token that was drafted."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Array, Case, arrangements, joined, outputs_of, require_equal, states
from specsim.properties.strategies.arrays import bulk


def a_rotation_looks_one_token_further(backend: Backend, case: Case) -> None:
    """Every id is the one after it, the proposal stands at its given place or at the end, and gaps stay as they are."""
    got = outputs_of(backend, "rotate_input_ids", case)["input_ids"]
    expected = case["input_ids"].tolist()
    for request, window in enumerate(_windows(case, "extend_seq_lens")):
        ids = case["input_ids"][window].tolist()
        if not ids:
            continue
        rotated = [*ids[1:], ids[-1]]
        chosen = case["select_index"]
        rotated[-1 if chosen is None else int(chosen[request]) - window.start] = int(case["next_tokens"][request])
        expected[window] = rotated
    require_equal("input_ids", got, expected)


def a_window_grows_by_the_position_before_it(backend: Backend, case: Case) -> None:
    """Positions, slots and hidden states of the position in front come before the same ones, or nothing does."""
    grown = outputs_of(backend, "assign_new_state", case)
    for request, window in enumerate(_windows(case, "extend_seq_lens")):
        into = slice(window.start + request, window.stop + request + 1)
        row = case["req_pool_indices"][request]
        earlier = int(case["forward_seq_lens"][request]) - (window.stop - window.start) - 1
        waiting = case["hidden_states_pool"][row, case["hidden_states_pool"].shape[1] - 1 - case["draft_layer"]]
        before = {
            "next_positions": max(int(case["positions"][window.start]) - 1, 0),
            "next_out_cache_loc": case["req_to_token"][row, earlier] if earlier >= 0 else 0,
            "next_hidden_states": waiting if earlier >= 0 else np.zeros_like(waiting),
        }
        for name, in_front in before.items():
            old = case[name.removeprefix("next_")][window]
            require_equal(f"{name} of request {request}, in front", grown[name][into.start], in_front)
            require_equal(f"{name} of request {request}", grown[name][into.start + 1 : into.stop], old)
        require_equal(f"start of request {request}", grown["next_extend_start_loc"][request], into.start)
        require_equal(f"window of request {request}", grown["next_extend_seq_lens"][request], into.stop - into.start)


def a_proposal_stands_behind_what_is_committed(backend: Backend, case: Case) -> None:
    """The ids of a window stay in their places, but for the proposal in front of its padding."""
    got = outputs_of(backend, "assign_new_state", case)["next_input_ids"]
    for request, window in enumerate(_windows(case, "extend_seq_lens")):
        expected = [*case["input_ids"][window].tolist(), 0]
        expected[len(expected) - 1 - int(case["num_padding"][request])] = int(case["next_tokens"][request])
        require_equal(f"ids of request {request}", got[window.start + request : window.stop + request + 1], expected)


def the_pool_has_what_was_committed_last(backend: Backend, case: Case) -> None:
    """A row is the end of what it had, and after it of what is committed; rows of no request stay as they are."""
    got = outputs_of(backend, "assign_hidden_states_pool", case)["hidden_states_pool"]
    expected = case["hidden_states_pool"].copy()
    num_kept = expected.shape[1]
    for request, window in enumerate(_windows(case, "num_committed")):
        row = case["req_pool_indices"][request]
        if row and num_kept:
            expected[row] = np.concatenate([expected[row], case["hidden_states"][window]])[-num_kept:]
    require_equal("hidden_states_pool", got[1:], expected[1:])


def committing_in_parts_is_committing_at_once(backend: Backend, case: Case) -> None:
    """What two chunks leave in the pool is what both leave in one."""
    whole = outputs_of(backend, "assign_hidden_states_pool", case)["hidden_states_pool"]
    pool, starts, counts = case["hidden_states_pool"], case["extend_start_loc"], case["num_committed"]
    first = counts // 2
    for start, count in ((starts, first), (starts + first, counts - first)):
        part = {**case, "hidden_states_pool": pool, "extend_start_loc": start, "num_committed": count}
        pool = outputs_of(backend, "assign_hidden_states_pool", part)["hidden_states_pool"]
    require_equal("hidden_states_pool", pool[1:], whole[1:])


def windows_of_every_layer_are_those_of_the_text(backend: Backend, case: Case) -> None:
    """Layer s sees at position p the token of p+1+s, the slot and the hidden state of p, from p = L-s on.

    What is committed is as the text has it, also where it was drafted before, and then come the proposals.
    """
    num_steps, num_nodes, rows = case["num_steps"], case["num_steps"] + 1, case["req_pool_indices"]
    lengths, counts, text = case["seq_lens"], case["num_accepted_tokens"], case["text"]
    num_requests = len(rows)
    here = (lengths[:, None] + np.arange(num_nodes)).reshape(-1)
    owner = np.repeat(np.arange(num_requests), num_nodes)
    window = {
        "input_ids": text[owner, here + 1],
        "positions": here,
        "out_cache_loc": case["req_to_token"][rows[owner], here].astype(np.int64),
        "hidden_states": case["hidden"][owner, here],
        "extend_start_loc": (np.arange(num_requests) * num_nodes).astype(np.int32),
        "extend_seq_lens": np.full(num_requests, num_nodes, dtype=np.int32),
    }
    pool = np.zeros((len(case["req_to_token"]), num_steps - 1, 1), dtype=np.int64)
    known = {
        **{name: case[name] for name in ("req_pool_indices", "req_to_token")},
        "num_padding": (num_nodes - counts).astype(np.int32),
        "forward_seq_lens": lengths + num_nodes,
        "hidden_states_pool": pool,
    }
    for request, (row, length) in enumerate(zip(rows.tolist(), lengths.tolist(), strict=True)):
        states = case["hidden"][request, max(length - num_steps + 1, 0) : length]
        pool[row, num_steps - 1 - len(states) :] = states
    for layer in range(num_steps - 1):
        proposed = 1000 * (layer + 1) + np.arange(num_requests)
        grown = outputs_of(backend, _GROW, {**window, **known, "next_tokens": proposed, "draft_layer": layer})
        window = {name.removeprefix("next_"): value for name, value in grown.items()}
        for request in range(num_requests):
            _require_window(f"layer {layer + 1}, request {request}", window, case, request, layer + 1)


@composite
def decoded_texts(draw: st.DrawFn) -> Case:
    """Draw texts after a verify that accepted some drafts, short ones among them, and up to five layers."""
    num_requests, num_steps, source = draw(st.integers(1, 3)), draw(st.integers(2, 5)), draw(bulk())
    lengths = np.array([draw(st.integers(1, 9)) for _ in range(num_requests)], dtype=np.int64)
    counts = np.array([draw(st.integers(1, num_steps + 1)) for _ in range(num_requests)], dtype=np.int64)
    width = int(lengths.max()) + num_steps + 2
    rows = source.order(num_requests + 1)[:num_requests].astype(np.int64) + 1
    slots = source.order((num_requests + 2) * width) + 1
    return {
        "num_steps": num_steps,
        "seq_lens": lengths,
        "num_accepted_tokens": counts,
        "req_pool_indices": rows,
        "req_to_token": slots.reshape(num_requests + 2, width).astype(np.int32),
        "text": source.integers((num_requests, width), 1, 99),
        "hidden": (source.order(num_requests * width) + 1).reshape(num_requests, width, 1).astype(np.int64),
    }


def _require_window(what: str, window: Case, case: Case, request: int, layer: int) -> None:
    """Raise AssertionError unless a request's window is what the text says, up to its last proposal."""
    start, width = (int(window[name][request]) for name in ("extend_start_loc", "extend_seq_lens"))
    length, count = int(case["seq_lens"][request]), int(case["num_accepted_tokens"][request])
    require_equal(f"{what}: tokens", width, case["num_steps"] + 1 + layer)
    for place in range(width):
        position, entry = length - layer + place, start + place
        before = position < 0
        slot = 0 if before else case["req_to_token"][case["req_pool_indices"][request], position]
        hidden = np.zeros(1) if before else case["hidden"][request, position]
        require_equal(f"{what}, position {position}: position", window["positions"][entry], max(position, 0))
        require_equal(f"{what}, position {position}: slot", window["out_cache_loc"][entry], slot)
        require_equal(f"{what}, position {position}: hidden state", window["hidden_states"][entry], hidden)
        seen = position + 1 + layer
        if position < length + count:
            is_drafted = seen > length + count
            token = 1000 * (seen - length - count) + request if is_drafted else case["text"][request, seen]
            require_equal(f"{what}, position {position}: token", window["input_ids"][entry], token)


def _one_by_one(operation: str, names: Sequence[str], backend: Backend, case: Case) -> None:
    """Compare every arrangement of the requests with the whole batch, their written or returned tokens side by side."""
    whole, windows = outputs_of(backend, operation, case), _windows(case, "extend_seq_lens")
    by_token = ("input_ids", "positions", "out_cache_loc", "hidden_states")
    for requests in arrangements(len(windows)):
        part = {**case, **{name: case[name][requests] for name in names if case[name] is not None}}
        cells = [np.arange(windows[request].start, windows[request].stop) for request in requests]
        taken = joined(cells)
        part.update({name: case[name][taken] for name in by_token if name in case})
        counts = np.array([len(one) for one in cells], dtype=np.int32)
        part["extend_start_loc"] = (np.cumsum(counts) - counts).astype(np.int32)
        if case.get("select_index") is not None:
            moved = part["extend_start_loc"] - case["extend_start_loc"][requests]
            part["select_index"] = np.minimum(case["select_index"][requests] + moved, max(len(taken), 0))
        got = outputs_of(backend, operation, part)
        if operation == "rotate_input_ids":
            require_equal(f"ids of requests {requests}", got["input_ids"], whole["input_ids"][taken])
        else:
            grown = joined([np.arange(windows[one].start + one, windows[one].stop + one + 1) for one in requests])
            for name in ("next_input_ids", "next_positions", "next_out_cache_loc", "next_hidden_states"):
                require_equal(f"{name} of requests {requests}", got[name], whole[name][grown])


def requests_rotate_one_by_one(backend: Backend, case: Case) -> None:
    """A request rotates alike alone, and in any order of the batch."""
    _one_by_one("rotate_input_ids", ("extend_seq_lens", "next_tokens", "select_index"), backend, case)


def windows_grow_one_by_one(backend: Backend, case: Case) -> None:
    """A window grows alike alone, and in any order of the batch."""
    names = ("extend_seq_lens", "next_tokens", "num_padding", "req_pool_indices", "forward_seq_lens")
    _one_by_one("assign_new_state", names, backend, case)


def _windows(case: Case, lengths: str) -> list[slice]:
    starts: Array = case["extend_start_loc"]
    return [slice(int(start), int(start + count)) for start, count in zip(starts, case[lengths], strict=True)]


_ROTATE, _GROW, _KEEP = ("rotate_input_ids",), "assign_new_state", ("assign_hidden_states_pool",)

PROPERTIES = states(
    "multi_layer",
    (a_rotation_looks_one_token_further, "rotate_input_ids", "P47"),
    (requests_rotate_one_by_one, "rotate_input_ids", "P31"),
    (a_window_grows_by_the_position_before_it, _GROW, "P47"),
    (a_proposal_stands_behind_what_is_committed, _GROW, "P47"),
    (windows_grow_one_by_one, _GROW, "P31"),
    (windows_of_every_layer_are_those_of_the_text, decoded_texts, _GROW, "P48"),
    (the_pool_has_what_was_committed_last, "assign_hidden_states_pool", "P48"),
    (committing_in_parts_is_committing_at_once, "assign_hidden_states_pool", "P48"),
)
