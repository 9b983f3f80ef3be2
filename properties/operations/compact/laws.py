"""Laws of compaction: ids, hidden states and KV of the accepted path go to the front together."""

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Array, Case, outputs_of, require_equal, states
from specsim.properties.strategies.numbers import generators


def gathered_tokens_stop_at_the_sentinel(backend: Backend, case: Case) -> None:
    """Entry j is what was predicted at the j-th accepted node; sentinels give 0."""
    accept_tokens = outputs_of(backend, "gather_accept_tokens", case)["accept_tokens"]
    expected = [[int(case["predict"][node]) if node >= 0 else 0 for node in row] for row in case["accept_index"]]
    require_equal("accept_tokens", accept_tokens, np.array(expected).reshape(case["accept_index"].shape))


def bonus_is_the_last_output_token(backend: Backend, case: Case) -> None:
    """The bonus token closes each request's output."""
    bonus_tokens = outputs_of(backend, "fill_bonus_tokens", case)["bonus_tokens"]
    outputs = zip(case["accept_tokens"].tolist(), case["num_accepted_tokens"], strict=True)
    require_equal("bonus_tokens", bonus_tokens, [tokens[:count][-1] for tokens, count in outputs])


def bonus_follows_the_last_accepted_node(backend: Backend, case: Case) -> None:
    """Gathering the path and taking its last token is reading the prediction of its last node."""
    accept_tokens = outputs_of(backend, "gather_accept_tokens", case)["accept_tokens"]
    counts = _lengths(case["accept_index"])
    asked = {"accept_tokens": accept_tokens, "num_accepted_tokens": counts.astype(np.int32)}
    taken = outputs_of(backend, "fill_bonus_tokens", asked)
    last = case["accept_index"][np.arange(len(counts)), counts - 1]
    require_equal("bonus_tokens", taken["bonus_tokens"], case["predict"][last])


def sources_are_the_slots_of_the_path(backend: Backend, case: Case) -> None:
    """Sources are the accepted nodes' slots, request after request, then dump slots."""
    source_slots = outputs_of(backend, "fill_accept_out_cache_loc", case)["source_slots"]
    nodes = [node for node in case["accept_index"].reshape(-1).tolist() if node >= 0]
    require_equal("the sources", source_slots[: len(nodes)], case["out_cache_loc"][nodes])
    require_equal("the tail of the sources", source_slots[len(nodes) :], np.zeros(len(source_slots) - len(nodes)))


def targets_are_the_front_of_the_window(backend: Backend, case: Case) -> None:
    """Targets are each request's first slots, as many as it outputs tokens, then dump slots."""
    target_slots = outputs_of(backend, "fill_accept_target_cache_loc", case)["target_slots"]
    counts = case["num_accepted_tokens"]
    windows = case["out_cache_loc"].reshape(len(counts), -1) if len(counts) else []
    fronts = [slot for count, window in zip(counts, windows, strict=True) for slot in window[:count].tolist()]
    require_equal("the targets", target_slots[: len(fronts)], fronts)
    require_equal("the tail of the targets", target_slots[len(fronts) :], np.zeros(len(target_slots) - len(fronts)))


def front_holds_the_path(backend: Backend, case: Case) -> None:
    """Entry j of a request's block is the value at its j-th accepted node."""
    compacted = outputs_of(backend, "compact_accepted_to_front", case)["compacted"]
    for place, node in _placed(case["accept_index"], len(case["values"])):
        require_equal(f"compacted[{place}]", compacted[place], case["values"][node])


def node_numbers_compact_like_their_values(backend: Backend, case: Case) -> None:
    """Compacting node numbers and then indexing is compacting the values themselves; no digit of a number is lost."""
    compacted = outputs_of(backend, "compact_accepted_to_front", case)["compacted"]
    numbers = np.arange(len(case["values"]), dtype=np.int64)
    order = outputs_of(backend, "compact_accepted_to_front", {**case, "values": numbers})["compacted"]
    fine = 1.0 + numbers * np.finfo(np.float64).eps
    last_digits = outputs_of(backend, "compact_accepted_to_front", {**case, "values": fine})["compacted"]
    for place, node in _placed(case["accept_index"], len(case["values"])):
        require_equal(f"the node number at {place}", order[place], node)
        require_equal(f"the last digits at {place}", last_digits[place], fine[node])
        require_equal(f"compacted[{place}]", compacted[place], case["values"][order[place]])


def kv_moves_like_its_companions(backend: Backend, case: Case) -> None:
    """After the move a request's window holds what compaction brings to the front, in every buffer."""
    accept_index, window = case["accept_index"], case["out_cache_loc"]
    counts = _lengths(accept_index).astype(np.int32)
    nodes = {"accept_index": accept_index, "out_cache_loc": window}
    asked = {"num_accepted_tokens": counts, "out_cache_loc": window, "num_steps": accept_index.shape[1] - 1}
    pairs = {**outputs_of(backend, _SOURCES, nodes), **outputs_of(backend, _TARGETS, asked)}
    moved = outputs_of(backend, _MOVE, {"kv_buffers": case["kv_buffers"], **pairs})["kv_buffers"]
    for number, (before, after) in enumerate(zip(case["kv_buffers"], moved, strict=True)):
        expected = outputs_of(backend, _COMPACT, {"values": before[window], "accept_index": accept_index})["compacted"]
        for place, _ in _placed(accept_index, len(window)):
            require_equal(f"buffer {number} at slot {window[place]}", after[window[place]], expected[place])


def move_reads_before_it_writes(backend: Backend, case: Case) -> None:
    """A target holds what its source held before the call, in every buffer, whatever overlaps."""
    moved = outputs_of(backend, "move_kv_cache", case)["kv_buffers"]
    for number, (before, after) in enumerate(zip(case["kv_buffers"], moved, strict=True)):
        for target, source in zip(case["target_slots"].tolist(), case["source_slots"].tolist(), strict=True):
            if target != 0:
                require_equal(f"slot {target} of buffer {number}", after[target], before[source])


def move_leaves_other_slots_alone(backend: Backend, case: Case) -> None:
    """Slots that are no target keep what they held."""
    moved = outputs_of(backend, "move_kv_cache", case)["kv_buffers"]
    for number, (before, after) in enumerate(zip(case["kv_buffers"], moved, strict=True)):
        others = np.setdiff1d(np.arange(1, len(before)), case["target_slots"])
        require_equal(f"the other slots of buffer {number}", after[others], before[others])


def move_back_restores(backend: Backend, case: Case) -> None:
    """Permuting slots and permuting them back restores every buffer; moving slots onto themselves changes nothing."""
    here, there = case["slots"], case["permuted"]
    buffers = case["kv_buffers"]
    for sources, targets in ((here, there), (there, here)):
        asked = {"kv_buffers": buffers, "target_slots": targets, "source_slots": sources}
        buffers = outputs_of(backend, "move_kv_cache", asked)["kv_buffers"]
    still = outputs_of(backend, "move_kv_cache", {"kv_buffers": buffers, "target_slots": here, "source_slots": here})
    for number, before in enumerate(case["kv_buffers"]):
        require_equal(f"buffer {number}, there and back", buffers[number], before)
        require_equal(f"buffer {number}, moved onto itself", still["kv_buffers"][number], before)


def move_without_layers_does_nothing(backend: Backend, case: Case) -> None:
    """A pool without layers is moved like any other, and pairs without slots move nothing."""
    empty = outputs_of(backend, "move_kv_cache", {**case, "kv_buffers": []})["kv_buffers"]
    require_equal("the number of buffers", len(empty), 0)
    nothing = np.zeros(0, dtype=np.int64)
    unmoved = outputs_of(backend, "move_kv_cache", {**case, "target_slots": nothing, "source_slots": nothing})
    for number, before in enumerate(case["kv_buffers"]):
        require_equal(f"buffer {number} after an empty move", unmoved["kv_buffers"][number], before)


@composite
def verified_windows(draw: st.DrawFn) -> Case:
    """Draw accepted paths, the slots of their windows in any order, and buffers that hold distinct entries."""
    num_requests, num_nodes = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    width = draw(st.integers(1, num_nodes))
    random = draw(generators())
    accept_index = np.full((num_requests, width), -1, dtype=np.int32)
    for request in range(num_requests):
        count = draw(st.integers(1, width))
        later = 1 + np.sort(random.permutation(num_nodes - 1)[: count - 1])
        accept_index[request, :count] = request * num_nodes + np.array([0, *later])
    num_slots = num_requests * num_nodes + 4
    shapes = draw(st.lists(st.sampled_from(((), (3,), (2, 2))), min_size=1, max_size=6))
    return {
        "accept_index": accept_index,
        "out_cache_loc": 1 + random.permutation(num_slots - 1)[: num_requests * num_nodes],
        "kv_buffers": [
            random.permutation(num_slots * 4)[: num_slots * int(np.prod(shape, dtype=int))].reshape(num_slots, *shape)
            for shape in shapes
        ],
    }


@composite
def permuted_pools(draw: st.DrawFn) -> Case:
    """Draw buffers, some of their slots, and a permutation of those."""
    num_slots = draw(st.integers(2, 12))
    random = draw(generators())
    slots = 1 + random.permutation(num_slots - 1)[: draw(st.integers(1, num_slots - 1))]
    buffers = [random.permutation(num_slots * 2).reshape(num_slots, 2) for _ in range(draw(st.integers(0, 4)))]
    return {"kv_buffers": buffers, "slots": slots, "permuted": random.permutation(slots)}


def _placed(accept_index: Array, num_values: int) -> list[tuple[int, int]]:
    """Return (place in the batch, node) of every accepted node."""
    width = num_values // max(len(accept_index), 1)
    return [
        (request * width + place, node)
        for request, row in enumerate(accept_index.tolist())
        for place, node in enumerate(row)
        if node >= 0
    ]


def _lengths(accept_index: Array) -> Array:
    return np.asarray((accept_index >= 0).sum(axis=1))


_SOURCES = "fill_accept_out_cache_loc"
_TARGETS = "fill_accept_target_cache_loc"
_COMPACT = "compact_accepted_to_front"
_MOVE = "move_kv_cache"

PROPERTIES = states(
    "compact",
    (gathered_tokens_stop_at_the_sentinel, "gather_accept_tokens", "P37"),
    (bonus_is_the_last_output_token, "fill_bonus_tokens", "P25"),
    (bonus_follows_the_last_accepted_node, ("gather_accept_tokens", "fill_bonus_tokens"), "P25"),
    (sources_are_the_slots_of_the_path, _SOURCES, "P41"),
    (targets_are_the_front_of_the_window, _TARGETS, "P41"),
    (front_holds_the_path, _COMPACT, "P41"),
    (node_numbers_compact_like_their_values, _COMPACT, "P41"),
    (kv_moves_like_its_companions, verified_windows, (_SOURCES, _TARGETS, _COMPACT, _MOVE), "P41"),
    (move_reads_before_it_writes, _MOVE, "P41"),
    (move_leaves_other_slots_alone, _MOVE, "P41"),
    (move_back_restores, permuted_pools, _MOVE, "P41"),
    (move_without_layers_does_nothing, _MOVE, "P32"),
)
