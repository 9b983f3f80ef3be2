"""Faults in attention metadata for trees and for idle ranks, and in tree attention."""

from collections.abc import Callable

import numpy as np

from specsim.contracts.attended import slots_read
from specsim.counts import ceil_to
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Named,
    edits_of,
    given,
    mutants_by_operation,
    returning,
    with_arguments,
    with_outputs,
)
from specsim.properties.mutants.tables import every_position_a_page, rows_of_the_batch, slots_for_pages


def _configured_queries(starts: str, width: str) -> Callable[[Function], Function]:
    return edited(f"{starts}[request] + {width}", f"{starts}[request] + 4")


def _offsets_moved(windows: int) -> Callable[[Function], Function]:
    """Inject offsets of keys that count so many windows more, without other keys."""
    return returning(lambda outputs, _: outputs.update(kv_indptr=outputs["kv_indptr"] + windows * outputs["qo_indptr"]))


_window_counted = edited("cache_seqlens[request] = length", "cache_seqlens[request] = length + num_nodes")
_pages_of_nodes = edited("row[length + other]", "row[length + other] // page_size")
_keys_from_position_one = with_arguments(req_to_token=lambda rows: np.roll(rows, -1, axis=1))


def _new_keys(count: int) -> Callable[[Function], Function]:
    def change(outputs: Named, arguments: Named) -> None:
        outputs["cache_seqlens"] = (arguments["seq_lens"] + count).astype(np.int32)

    return returning(change)


_every_key_a_query = edited("cu_seqlens_q[request] + 1", "cu_seqlens_q[request] + cache_seqlens[request]")
_ends_for_starts = with_outputs(cu_seqlens_k=lambda starts: np.append(starts[1:], starts[-1:]))


_WINDOW = "tree_mask[row * num_nodes : (row + 1) * num_nodes]"
_SUM = "scores.max() + np.log(weights.sum())"
_OUTPUTS = f"attention[row, head] = weights @ values / weights.sum()\nlog_sum_exp[row, head] = {_SUM}"
_SHARES = """
shares = np.array([slots.index(slot) for slot in seen]) // 4
parts = [(scores[shares == share], values[shares == share]) for share in np.unique(shares)]
parts = parts[:num_kept] or parts
tops = np.array([own.max() for own, _ in parts])
means = [np.exp(own - own.max()) @ held / np.exp(own - own.max()).sum() for own, held in parts]
sums = np.array([own.max() + np.log(np.exp(own - own.max()).sum()) for own, _ in parts])
"""


def _in_shares(
    weights: str = "np.exp(sums - sums.max())", log_sum: str = "np.logaddexp.reduce(sums)", num_kept: str = "None"
) -> Callable[[Function], Function]:
    """Inject attention in shares of four keys, which are joined by other weights, to another sum, or without some."""
    joined = f"weights = {weights}\nattention[row, head] = weights @ means / weights.sum()"
    return edited(_OUTPUTS, f"num_kept = {num_kept}{_SHARES}{joined}\nlog_sum_exp[row, head] = {log_sum}")


_by_columns = edited(_WINDOW, "tree_mask.reshape(-1, num_nodes, num_nodes)[request, :, node]")
_masks_of_the_first = edited(_WINDOW, "tree_mask[node * num_nodes : (node + 1) * num_nodes]")
_prefix_ends_early = edited("slots[: length - num_nodes]", "slots[: max(length - num_nodes - 1, 0)]")
_one_length = with_arguments(cache_seqlens=lambda lengths: np.full_like(lengths, lengths.min(initial=2**30)))


def _whole_last_page(arguments: Named) -> None:
    whole_pages = ceil_to(arguments["cache_seqlens"], arguments["page_size"])
    is_read = slots_read({**arguments, "cache_seqlens": whole_pages}, len(arguments["k_buffer"]))
    for name in ("k_buffer", "v_buffer"):
        if np.isnan(arguments[name][is_read].astype(np.float32)).any():
            raise ValueError("a number of the last page is NaN")


def _places_reversed(arguments: Named) -> None:
    buffer = arguments["k_buffer"]
    pages = buffer.reshape(-1, arguments["page_size"], *buffer.shape[1:])
    arguments["k_buffer"] = np.where(np.isnan(buffer), buffer, pages[:, ::-1].reshape(buffer.shape))


DIFFS = """
    @@ verify_cascade_metadata
    OWN-341 Visible nodes are read from the mask's first columns.
    - tree_mask[start + length : start + length + num_nodes] => tree_mask[start : start + num_nodes]
    OWN-345 All masks are as long as the longest.
    - expand_cache_seqlens[request * num_nodes + node] = len(seen)
    + longest = int(seq_lens.max())
    + own = tree_mask[(request * num_nodes + node) * (longest + num_nodes) + longest :][:num_nodes]
    + expand_cache_seqlens[request * num_nodes + node] = num_nodes - np.count_nonzero(~own)
    @@ idle_attention_metadata
    OWN-2355 Key offsets leave new keys out.
    - cu_seqlens_k[request] + cache_seqlens[request] => cu_seqlens_k[request] + seq_lens[request]
    @@ tree_attention
    OWN-3313 A node that sees nothing has the mean of the values.
    - if not seen:
    -     continue
    + is_blind, seen = not seen, seen or slots
    - scale * (keys @ query) => scale * (keys @ query) * (not is_blind)
    - np.log(weights.sum()) => np.log(weights.sum()) * (not is_blind)
    OWN-3317 Pages are read in the order of the pool.
    - int(page_table[request, at // page_size])
    + (request * page_table.shape[1] + at // page_size) % (len(k_buffer) // page_size)
"""

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    verify_cascade_metadata=(
        ("OWN-337", "The row is the place in the batch.", given(rows_of_the_batch)),
        ("OWN-338", "The first pass reads the window too.", _window_counted),
        ("OWN-339", "Queries have the configured width.", _configured_queries("cu_seqlens_q", "num_nodes")),
        ("OWN-340", "The second pass counts the prefix.", edited("len(seen)", "len(seen) + length")),
        ("OWN-342", "Nodes stand in order, seen or not.", edited("seen + unseen", "range(num_nodes)")),
        ("OWN-343", "Seen nodes stand backwards.", edited("seen + unseen", "seen[::-1] + unseen")),
        ("OWN-344", "The window is read from the start of the row.", edited("row[length + other]", "row[other]")),
        ("OWN-738", "Slots stand where pages should.", returning(slots_for_pages)),
        ("OWN-739", "Every position is read as a page of its own.", returning(every_position_a_page)),
        ("OWN-740", "The second pass reads pages, too.", _pages_of_nodes),
    ),
    verify_custom_mask_metadata=(
        ("OWN-346", "A short mask is continued by invisible entries.", edited("np.ones", "np.zeros")),
        ("OWN-347", "Key offsets leave the window out.", _offsets_moved(-1)),
        ("OWN-348", "Keys start at position 1.", _keys_from_position_one),
        ("OWN-349", "The row is the place in the batch.", given(rows_of_the_batch)),
    ),
    verify_extend_metadata=(
        ("OWN-350", "Key offsets count the window.", _offsets_moved(1)),
        ("OWN-351", "Keys start at position 1.", _keys_from_position_one),
        ("OWN-352", "Mask offsets leave the window out.", edited("length + num_draft_tokens", "length")),
        ("OWN-353", "Mask offsets leave the prefix out.", edited("length + num_draft_tokens", "num_draft_tokens")),
        ("OWN-354", "Queries have the configured width.", _configured_queries("qo_indptr", "num_draft_tokens")),
    ),
    idle_attention_metadata=(
        ("OWN-2359", "The longest length of no request is asked for.", given(lambda asked: asked["seq_lens"].max())),
        ("OWN-2350", "The row is the place in the batch.", given(rows_of_the_batch)),
        ("OWN-2351", "A draft of a chain adds no key.", _new_keys(0)),
        ("OWN-2352", "A backend without steps has a key more.", _new_keys(1)),
        ("OWN-2353", "Dummy rows have no query.", with_outputs(cu_seqlens_q=np.zeros_like)),
        ("OWN-2354", "Every key is a query.", _every_key_a_query),
        ("OWN-2356", "Key offsets are one request late.", _ends_for_starts),
        ("OWN-2357", "Slots stand where pages should.", returning(slots_for_pages)),
        ("OWN-2358", "Every position is read as a page of its own.", returning(every_position_a_page)),
    ),
    tree_attention=(
        ("OWN-3300", "The mask is read by columns.", _by_columns),
        ("OWN-3301", "A node does not see itself.", edited(_WINDOW, f"{_WINDOW} & (np.arange(num_nodes) != node)")),
        ("OWN-3302", "Every node sees the whole window.", edited(_WINDOW, "[True] * num_nodes")),
        ("OWN-3303", "The prefix ends a position early.", _prefix_ends_early),
        ("OWN-3304", "The prefix ends a position late.", edited(_WINDOW, f"{_WINDOW} | (np.arange(num_nodes) == 0)")),
        ("OWN-3305", "Query heads take KV heads in turn.", edited("head // group", "head % axes['kv_head']")),
        ("OWN-3306", "All requests have the first one's mask.", _masks_of_the_first),
        ("OWN-3307", "Shares of the keys count alike.", _in_shares("np.ones(len(sums))")),
        ("OWN-3308", "The sums of shares are added as logarithms.", _in_shares(log_sum="sums.sum()")),
        ("OWN-3309", "The last share is lost.", _in_shares(num_kept="-1")),
        ("OWN-3310", "Shares are joined without their largest scores.", _in_shares("np.exp(sums - tops)")),
        ("OWN-3311", "The logarithm of the sum is to base 2.", edited(_SUM, f"({_SUM}) / np.log(2)")),
        ("OWN-3312", "The logarithm of the sum lacks the largest score.", edited(_SUM, "np.log(weights.sum())")),
        ("OWN-3314", "Scores are not scaled.", with_arguments(softmax_scale=np.ones(1, np.float32))),
        ("OWN-3315", "A scale that is given is not taken.", with_arguments(softmax_scale=None)),
        ("OWN-3316", "The last page is read to its end.", given(_whole_last_page)),
        ("OWN-3318", "Keys of a page are read backwards.", given(_places_reversed)),
        ("OWN-3319", "All requests have the shortest length.", _one_length),
    ),
)
