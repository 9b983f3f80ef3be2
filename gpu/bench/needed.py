"""Which entries of an array a call cannot do without: what is read, and once more what is written.

Every function returns a number of entries, given the arguments and the outputs of a call by name.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from specsim.config import INDEXER_PAGE_KEYS
from specsim.contracts.contract import ArraySpec
from specsim.counts import count_tokens
from specsim.gpu.arrays import to_numpy
from specsim.hashing import GOLDEN, mix_array
from specsim.operations import RECORDS

Known = Mapping[str, Any]
"""Arguments and outputs of a call by name."""

Count = Callable[[Known], int]
Counts = Mapping[str, Count]


def necessary_bytes(name: str, call: Known, needed: Counts) -> int:
    """Return the bytes that a call has to read and to write.

    Parameters
    ----------
    name : str
        The operation.
    call : mapping
        Its arguments and outputs.
    needed : mapping
        Counts of the arrays of which other entries are needed than those that the table defines.
    """
    contract, num_bytes = RECORDS[name].contract, 0
    for spec in (*contract.arrays, *contract.outputs):
        value = call[spec.name]
        tensors = value if isinstance(value, list | tuple) else [value]
        if value is None or not tensors:
            continue
        count = needed[spec.name](call) if spec.name in needed else sum(_defined(spec, one, call) for one in tensors)
        num_bytes += count * tensors[0].element_size()
    return num_bytes


def _defined(spec: ArraySpec, value: torch.Tensor, call: Known) -> int:
    """Return how many entries of an array the table defines."""
    by = spec.defined.by
    match spec.defined.rule:
        case "prefix":
            return int(call[by].sum())
        case "at" | "front":
            return int((call[by] >= 0).sum()) * (value.numel() // value.shape[0])
        case "rows":
            return int(call[by][..., -1].sum())
    return value.numel()


def total(name: str) -> Count:
    """Return a count that is the sum of an array."""
    return lambda call: int(call[name].sum())


def as_many(*names: str) -> Count:
    """Return a count of one entry for each of some arrays."""
    return lambda call: sum(call[name].numel() for name in names)


def distinct(*names: str) -> Count:
    """Return a count of the different entries of some arrays."""
    return lambda call: len({entry for name in names for entry in call[name].flatten().tolist()})


def width(name: str, times: int = 1) -> Count:
    """Return a count of some rows of an array for each request."""
    return lambda call: times * call[name].shape[-1] * len(call["req_pool_indices"])


def none_of_it(call: Known) -> int:
    """Return 0."""
    return 0


def parents(call: Known) -> int:
    """Return the entries of those hidden states that a chosen beam goes on from."""
    topk = call["topk"]
    parent = (call["parent_block"] - topk) // topk
    rows = torch.arange(len(parent), device=parent.device)[:, None] * topk + parent
    return int(rows.unique().numel()) * int(call["hidden_states"].shape[1])


def states_reached(call: Known) -> int:
    """Return the entries of the states of the grammar in which a walk through the trees arrives."""
    after = call["transitions"].cpu()[:, call["candidates"].cpu()]  # [state, request, node]
    child, sibling = call["retrieve_next_token"].tolist(), call["retrieve_next_sibling"].tolist()
    is_terminated, reached = call["is_terminated"].tolist(), set()
    for request, first in enumerate(call["grammar_state"].tolist()):
        waiting = [(0, first)] if first >= 0 else []
        while waiting:
            node, state = waiting.pop()
            if is_terminated[state]:
                continue
            reached.add(state)
            node = child[request][node]
            while node >= 0:
                following = int(after[state, request, node])
                waiting += [(node, following)] if following >= 0 else []
                node = sibling[request][node]
    return len(reached) * int(call["transitions"].shape[1])


def buckets_read(call: Known) -> int:
    """Return the entries of the rows of n-gram counts that some context falls into."""
    counts, words = call["ngram_counts"], to_numpy(call["hidden_states"][:, -1])
    rows = 0
    for order in range(counts.shape[0]):
        bucket = mix_array((words & ((1 << (8 * order)) - 1)) + order * GOLDEN) % counts.shape[1]
        rows += len(set(bucket.tolist()))
    return rows * int(counts.shape[2])


def visited_rows(call: Known) -> int:
    """Return the entries of a row of logits for each token that a walk outputs."""
    return int(count_tokens(call["num_accepted_drafts"].long()).sum()) * int(call["logits"].shape[1])


def rows_of_blocks(name: str) -> Count:
    """Return a count of the entries of one side's rows that chances of fronts are made of, and that are drawn from.

    Inner fronts have a row each. Without kept drafts the first row is drawn from, less the first draft's law; after all
    of them the target's last row.
    """

    def count(call: Known) -> int:
        kept, most = call["num_accepted_drafts"], call["output_tokens"].shape[1] - 1
        is_drawn_from = (kept == 0) | ((kept == most) & (name == "target_probs"))
        return (kept.numel() * (most - 1) + int(is_drawn_from.sum())) * int(call[name].shape[1])

    return count


def logits_of_blocks(name: str) -> Count:
    """Return a count of the logits of one side that a block reads: of every draft's row, for its sum.

    After all drafts the target's last row is drawn from.
    """

    def count(call: Known) -> int:
        kept, most = call["num_accepted_drafts"], call["output_tokens"].shape[1] - 1
        num_last = int((kept == most).sum()) if name == "target_logits" else 0
        return (kept.numel() * most + num_last) * int(call[name].shape[1])

    return count


LOGITS_OF_BLOCKS: Counts = {name: logits_of_blocks(name) for name in ("target_logits", "draft_logits")}

ROWS_OF_BLOCKS: Counts = {name: rows_of_blocks(name) for name in ("target_probs", "draft_probs")}


def moved(name: str) -> Count:
    """Return a count of entries that are read and written where each pair moves: a node in its place does not."""

    def count(call: Known) -> int:
        slots = INDEXER_PAGE_KEYS if name == "indexer_buffers" else 1
        entry = sum(buffer[0].numel() // slots for buffer in call[name])
        return 2 * entry * int((call["target_slots"] != call["source_slots"]).sum())

    return count


def last_rows(call: Known) -> int:
    """Return the entries of those hidden states that are kept."""
    kept = call["hidden_states_pool"].shape[1]
    return int(call["num_committed"].clamp(max=kept).sum()) * int(call["hidden_states"].shape[1])


def shifted_rows(call: Known) -> int:
    """Return the entries of the pool that are written, and of those that stay and are read for it."""
    pool, committed = call["hidden_states_pool"], call["num_committed"]
    stay = int((pool.shape[1] - committed).clamp(min=0).sum())
    return (committed.numel() * int(pool.shape[1]) + stay) * int(pool.shape[2])


def kv_of_pages(call: Known) -> int:
    """Return the entries of every key: a forward reads the text before it and writes the new ones."""
    return sum(buffer.shape[1] for buffer in call["kv_buffers"]) * int(call["cache_seqlens"].sum())


def attended(name: str) -> Count:
    """Return a count of the entries of every key of a request in a pool, each read once."""
    return lambda call: int(call["cache_seqlens"].sum()) * call[name][0].numel()


def pages_attended(call: Known) -> int:
    """Return the pages that hold keys of requests."""
    return int((-(-call["cache_seqlens"] // call["page_size"])).sum())


def kv_of_beams(num_written: Count) -> Count:
    """Return a count of what beams read of every layer, slots that they share once, and of what they write."""

    def count(call: Known) -> int:
        words = sum(buffer.shape[1] for buffer in call["kv_buffers"])
        return words * (int(call["kv_indices"].unique().numel()) + num_written(call))

    return count


def of_states(name: str) -> Count:
    """Return a count of one state of every layer for each request that commits one."""

    def count(call: Known) -> int:
        entry = sum(buffer[0].numel() // (buffer.shape[1] if name == "step_buffers" else 1) for buffer in call[name])
        return int((call["commit_step"] >= 0).sum()) * entry

    return count
