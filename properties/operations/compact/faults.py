"""Faults in bringing the accepted path to the front."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, instead, mutants_of, returning

Array = Any


def _sentinels_wrap(predict: Array, accept_index: Array) -> Array:
    return predict[accept_index] if predict.size else np.zeros(accept_index.shape, dtype=np.int32)


def _first_rows_of_the_batch(predict: Array, accept_index: Array) -> Array:
    accept_tokens = np.zeros(accept_index.shape, dtype=np.int32)
    is_valid = accept_index >= 0
    accept_tokens[is_valid] = predict[: int(is_valid.sum())]
    return accept_tokens


def _read_by_place(predict: Array, accept_index: Array) -> Array:
    requests = max(len(accept_index), 1)
    rows = predict.reshape(requests, -1)[: len(accept_index)]
    padded = np.pad(rows, ((0, 0), (0, accept_index.shape[1])))[:, : accept_index.shape[1]]
    return np.where(accept_index >= 0, padded, 0).astype(np.int32)


def _through_single_precision(outputs: Named, arguments: Named) -> None:
    if arguments["values"].dtype == np.float64:
        outputs["compacted"] = outputs["compacted"].astype(np.float32).astype(np.float64)


def _bonus_at(place_of: Any) -> Any:
    def fill_bonus_tokens(accept_tokens: Array, num_accepted_tokens: Array) -> Array:
        width = accept_tokens.shape[1]
        places = [place_of(request, int(count), width) for request, count in enumerate(num_accepted_tokens)]
        flat = accept_tokens.reshape(-1)
        return np.array([flat[place % flat.size] for place in places], dtype=np.int32)

    return instead(fill_bonus_tokens)


def _one_program_a_node(accept_index: Array, out_cache_loc: Array) -> Array:
    source_slots = np.zeros(accept_index.size, dtype=np.int64)
    flat = accept_index.reshape(-1)
    nodes = [int(flat[program % flat.size]) for program in range(len(out_cache_loc))]
    slots = [int(out_cache_loc[node]) for node in nodes if node >= 0][: len(source_slots)]
    source_slots[: len(slots)] = slots
    return source_slots


def _sources_at_the_front(accept_index: Array, out_cache_loc: Array) -> Array:
    counts = (accept_index >= 0).sum(axis=1)
    slots = [
        slot
        for count, window in zip(counts, out_cache_loc.reshape(max(len(counts), 1), -1), strict=False)
        for slot in window[:count].tolist()
    ]
    return np.array(slots + [0] * (accept_index.size - len(slots)), dtype=np.int64)


def _sources_unpacked(accept_index: Array, out_cache_loc: Array) -> Array:
    flat = accept_index.reshape(-1)
    return np.array([out_cache_loc[node] if node >= 0 else 0 for node in flat], dtype=np.int64)


def _targets(count_of: Any, stride_of: Any) -> Any:
    def fill_accept_target_cache_loc(num_accepted_tokens: Array, out_cache_loc: Array, num_steps: int) -> Array:
        requests = len(num_accepted_tokens)
        stride = stride_of(len(out_cache_loc) // max(requests, 1), num_steps + 1)
        slots = [
            int(out_cache_loc[request * stride + place])
            for request, count in enumerate(num_accepted_tokens.tolist())
            for place in range(count_of(count))
        ]
        return np.array(slots + [0] * (requests * (num_steps + 1) - len(slots)), dtype=np.int64)

    return instead(fill_accept_target_cache_loc)


def _hidden_states_left_in_place(outputs: Named, arguments: Named) -> None:
    if arguments["values"].ndim > 1:
        outputs["compacted"] = arguments["values"].copy()


def _ids_left_in_place(outputs: Named, arguments: Named) -> None:
    if arguments["values"].ndim == 1:
        outputs["compacted"] = arguments["values"].copy()


def _one_row_a_request(outputs: Named, arguments: Named) -> None:
    compacted = arguments["values"].copy()
    for request, row in enumerate(arguments["accept_index"].tolist()):
        for place, node in enumerate(row):
            if node >= 0 and request + place < len(compacted):
                compacted[request + place] = arguments["values"][node]
    outputs["compacted"] = compacted


def _in_place(step: int) -> Any:
    def compact(outputs: Named, arguments: Named) -> None:
        compacted = arguments["values"].copy()
        width = len(compacted) // max(len(arguments["accept_index"]), 1)
        for request, row in enumerate(arguments["accept_index"].tolist()):
            for place in range(len(row))[::step]:
                if row[place] >= 0:
                    compacted[request * width + place] = compacted[row[place]]
        outputs["compacted"] = compacted

    return compact


def _move(order_of: Any, buffers_of: Any = lambda buffers: buffers) -> Any:
    """Inject a move without a snapshot: pair after pair, in some order, over some of the buffers."""

    def move_kv_cache(kv_buffers: Sequence[Array], target_slots: Array, source_slots: Array) -> None:
        for buffer in buffers_of(kv_buffers):
            for pair in order_of(len(target_slots)):
                buffer[target_slots[pair]] = buffer[source_slots[pair]]

    return instead(move_kv_cache)


def _move_snapshot(buffers_of: Any) -> Any:
    """Inject a move that is right, but only for some of the buffers."""

    def move_kv_cache(kv_buffers: Sequence[Array], target_slots: Array, source_slots: Array) -> None:
        for buffer in buffers_of(kv_buffers):
            buffer[target_slots] = buffer[source_slots]

    return instead(move_kv_cache)


def _neighbours_too(kv_buffers: Sequence[Array], target_slots: Array, source_slots: Array) -> None:
    for buffer in kv_buffers:
        read, after = buffer[source_slots], np.minimum(source_slots + 1, len(buffer) - 1)
        spill = buffer[after]
        past = np.minimum(target_slots + 1, len(buffer) - 1)
        buffer[past] = spill
        buffer[target_slots] = read


def _first_bytes_only(kv_buffers: Sequence[Array], target_slots: Array, source_slots: Array) -> None:
    for buffer in kv_buffers:
        read = buffer[source_slots]
        if buffer.ndim > 1:
            buffer[target_slots, ..., :1] = read[..., :1]
        else:
            buffer[target_slots] = read


def _no_pair_is_a_launch_of_one(arguments: Named) -> None:
    if not len(arguments["target_slots"]):
        arguments["target_slots"] = np.array([1], dtype=np.int64)
        arguments["source_slots"] = np.array([0], dtype=np.int64)


_TARGETS = "fill_accept_target_cache_loc"
_COMPACT = "compact_accepted_to_front"
MUTANTS = (
    Mutant("OWN-125", _COMPACT, "Doubles pass through single precision.", returning(_through_single_precision)),
    *mutants_of(
        "gather_accept_tokens",
        ("OWN-62", "Sentinel -1 wraps to the last entry.", instead(_sentinels_wrap)),
        ("PV08", "The first rows of the batch are taken, not each request's.", instead(_first_rows_of_the_batch)),
        ("OWN-63", "Entries are read by place, not by node.", instead(_read_by_place)),
    ),
    *mutants_of(
        "fill_bonus_tokens",
        ("PV02", "Rows are read with another stride.", _bonus_at(lambda b, count, width: b * (width + 1) + count - 1)),
        ("PV07", "The first output token is taken.", _bonus_at(lambda b, count, width: b * width)),
        ("OWN-64", "The last column is taken.", _bonus_at(lambda b, count, width: (b + 1) * width - 1)),
        (
            "OWN-65",
            "The count of drafts is used as one of tokens.",
            _bonus_at(lambda b, count, width: b * width + max(count - 2, 0)),
        ),
    ),
    *mutants_of(
        "fill_accept_out_cache_loc",
        ("PV01", "One program a tree node runs over the shorter rows of paths.", instead(_one_program_a_node)),
        ("PV13", "The path is taken for the front of the window.", instead(_sources_at_the_front)),
        ("OWN-66", "Sources keep their gaps.", instead(_sources_unpacked)),
    ),
    Mutant(
        "OWN-67",
        _TARGETS,
        "Drafts are counted, not tokens.",
        _targets(lambda count: count - 1, lambda node, width: node),
    ),
    Mutant(
        "OWN-68", _TARGETS, "Windows are as wide as a path.", _targets(lambda count: count, lambda node, width: width)
    ),
    *mutants_of(
        _COMPACT,
        ("PV04", "Hidden states stay where they were.", returning(_hidden_states_left_in_place)),
        ("OWN-69", "Ids stay where they were.", returning(_ids_left_in_place)),
        ("PV06", "Blocks of nodes are taken for one row a request.", returning(_one_row_a_request)),
        ("OWN-70", "Compaction goes backwards in place.", returning(_in_place(-1))),
        ("OWN-395", "Compaction goes forwards in place, as ascending paths allow.", returning(_in_place(1))),
    ),
    *mutants_of(
        "move_kv_cache",
        ("PV03", "Nothing moves.", _move_snapshot(lambda buffers: [])),
        (
            "SYN10",
            "Pairs are copied in any order, without a snapshot.",
            _move(lambda count: [*range(0, count, 2), *range(1, count, 2)]),
        ),
        ("SYN11", "Pairs are copied backwards, in place.", _move(lambda count: range(count - 1, -1, -1))),
        ("OWN-71", "Pairs are copied forwards, in place.", _move(range)),
        ("K10", "Only the first component of each layer moves.", _move_snapshot(lambda buffers: buffers[::2])),
        ("OWN-72", "Only the first layer moves.", _move_snapshot(lambda buffers: buffers[:2])),
        ("OWN-73", "The pool has a layer at least.", given(lambda arguments: arguments["kv_buffers"][0].shape)),
        ("OWN-74", "The slot after each target is written too.", instead(_neighbours_too)),
        ("OWN-75", "Only the first element of an entry moves.", instead(_first_bytes_only)),
        ("OWN-76", "Without pairs one pair is moved.", given(_no_pair_is_a_launch_of_one)),
    ),
)
