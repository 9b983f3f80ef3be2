"""Faults in bringing the accepted path to the front."""

from collections.abc import Callable

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, edits_of, given, mutants_by_operation, with_arguments
from specsim.properties.mutants.tables import front_of_the_window


def _in_place(step: int) -> Callable[[Function], Function]:
    path = "accept_index[request][accept_index[request] >= 0]"
    return edited(
        "enumerate(accept_index[request])", f"[*enumerate({path})][::{step}]", "values[max(node, 0)]", "compacted[node]"
    )


def _without_snapshot(order: str) -> Callable[[Function], Function]:
    """Inject a move pair after pair, in some order."""
    return edited(
        "zip(target_slots, read, strict=True)",
        f"zip(target_slots[{order}], source_slots[{order}], strict=True)",
        "buffer[slot] = entry",
        "buffer[slot] = buffer[entry]",
    )


DIFFS = """
    @@ gather_accept_tokens
    PV08 The first rows of the batch are taken, not each request's.
    - predict[node] => predict[(accept_index[:request] >= 0).sum() + place]
    OWN-63 Entries are read by place, not by node.
    - predict[node] => predict[request * (len(predict) // len(accept_index)) + place]
    @@ fill_bonus_tokens
    PV02 Rows are read with another stride.
    - accept_tokens[request, num_accepted_tokens[request] - 1]
    + np.roll(accept_tokens, -request)[request, num_accepted_tokens[request] - 1]
    OWN-65 The count of drafts is used as one of tokens.
    - num_accepted_tokens[request] - 1 => max(num_accepted_tokens[request] - 2, 0)
    @@ fill_accept_out_cache_loc
    PV01 One program a tree node runs over the shorter rows of paths.
    - accept_index.reshape(-1) => np.resize(accept_index, len(out_cache_loc))
    - node >= 0 => node >= 0 and end < len(source_slots)
    OWN-66 Sources keep their gaps.
    - if node >= 0:
    -     source_slots[end] = out_cache_loc[node]
    -     end += 1
    + source_slots[end] = out_cache_loc[node] if node >= 0 else 0
    + end += 1
    @@ compact_accepted_to_front
    OWN-125 Doubles pass through single precision.
    - return compacted
    + return compacted.astype(np.float32).astype(np.float64) if compacted.dtype == np.float64 else compacted
    PV04 Hidden states stay where they were.
    - range(axes["request"]) => range(axes["request"] if values.ndim == 1 else 0)
    OWN-69 Ids stay where they were.
    - range(axes["request"]) => range(axes["request"] if values.ndim > 1 else 0)
    PV06 Blocks of nodes are taken for one row a request.
    - compacted[request * axes["node"] + place] = values[max(node, 0)]
    + if node >= 0 and request + place < len(compacted):
    +     compacted[request + place] = values[node]
    @@ move_kv_cache
    OWN-74 The slot after each target is written too.
      read = [buffer[slot].copy() for slot in source_slots]
    + buffer[np.minimum(target_slots + 1, len(buffer) - 1)] = buffer[np.minimum(source_slots + 1, len(buffer) - 1)]
    OWN-75 Only the first element of an entry moves.
    - buffer[slot] = entry
    + first = (slot, ..., slice(1)) if buffer.ndim > 1 else slot
    + buffer[first] = entry[..., :1] if buffer.ndim > 1 else entry
    OWN-76 Without pairs one pair is moved.
    - read = [buffer[slot].copy() for slot in source_slots]
    + target_slots, source_slots = (target_slots, source_slots) if len(target_slots) else ([1], [0])
    + read = [buffer[slot].copy() for slot in source_slots]
"""

_one_target_less = edited("num_accepted_tokens[request]", "num_accepted_tokens[request] - 1")
_in_any_order = _without_snapshot('np.argsort(np.arange(len(target_slots)) % 2, kind="stable")')

_front_of_the_window = with_arguments(accept_index=front_of_the_window)

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    gather_accept_tokens=(("OWN-62", "Sentinel -1 wraps to the last entry.", edited("node >= 0", "True")),),
    fill_bonus_tokens=(
        ("PV07", "The first output token is taken.", edited("num_accepted_tokens[request] - 1", "0")),
        ("OWN-64", "The last column is taken.", edited("num_accepted_tokens[request] - 1", "-1")),
    ),
    fill_accept_out_cache_loc=(("PV13", "The path is taken for the front of the window.", _front_of_the_window),),
    fill_accept_target_cache_loc=(
        ("OWN-67", "Drafts are counted, not tokens.", _one_target_less),
        ("OWN-68", "Windows are as wide as a path.", edited('axes["node"]', "path_width(num_steps)")),
    ),
    compact_accepted_to_front=(
        ("OWN-70", "Compaction goes backwards in place.", _in_place(-1)),
        ("OWN-395", "Compaction goes forwards in place, as ascending paths allow.", _in_place(1)),
    ),
    move_kv_cache=(
        ("PV03", "Nothing moves.", edited("kv_buffers", "kv_buffers[:0]")),
        ("SYN10", "Pairs are copied in any order, without a snapshot.", _in_any_order),
        ("SYN11", "Pairs are copied backwards, in place.", _without_snapshot("::-1")),
        ("OWN-71", "Pairs are copied forwards, in place.", _without_snapshot(":")),
        ("K10", "Only the first component of each layer moves.", edited("kv_buffers", "kv_buffers[::2]")),
        ("OWN-72", "Only the first layer moves.", edited("kv_buffers", "kv_buffers[:2]")),
        ("OWN-73", "The pool has a layer at least.", given(lambda arguments: arguments["kv_buffers"][0].shape)),
    ),
)
