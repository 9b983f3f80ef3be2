"""What V1 does when the host has seen which nodes were accepted: slots freed, KV mapped or moved, lengths moved on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specsim import gpu
from specsim.assertion import require
from specsim.counts import ceil_to, count_tokens, page_size_of_beams
from specsim.gpu.arrays import to_numpy
from specsim.gpu.switches import checks_values
from specsim.gpu.worker.carried import take_entries
from specsim.gpu.worker.pools import Buffers, Pools
from specsim.gpu.worker.transfer import upload
from specsim.host.truncation import Truncation
from specsim.phases import EagleDraftExtendInput, VerifyInput, VerifyOutput, filter_batch
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import Side
from specsim.simulation.synchronous import IterationLedger

Reclaimed = tuple[EagleDraftExtendInput, EagleDraftExtendInput]
"""What all requests hand over, and what those that go on take with them."""


@dataclass(frozen=True)
class Accepted:
    """What was accepted, on the device: paths and counts of the whole batch, and who goes on.

    ``accept_index`` is int32, as is ``num_accepted_drafts`` [request]; ``nodes``, the entries of the paths without the
    padding, and ``places`` of the requests that go on are int64. A tree has ``num_nodes`` nodes.
    """

    num_nodes: int
    accept_index: Tensor
    nodes: Tensor
    num_accepted_drafts: Tensor
    places: Tensor

    @classmethod
    def of(cls, truncation: Truncation, going_on: Sequence[int], num_nodes: int, device: torch.device) -> "Accepted":
        """Bring it there in one copy that no one waits for."""
        accept_index = truncation.accept_index
        narrow = accept_index, accept_index[accept_index >= 0], truncation.batch_num_accepted_drafts
        paths, nodes, counts, places = upload([*narrow, going_on], device)
        return cls(num_nodes, paths.int().view(accept_index.shape), nodes, counts.int(), places)


def reclaim(
    row: Tensor,
    verify_input: VerifyInput,
    verify_output: VerifyOutput,
    window: Tensor,
    given: Sequence[SlotRange],
    truncation: Truncation,
    topk: int,
    page_size: int,
    scratch: Buffers,
    pools: Pools,
    ledger: IterationLedger,
    is_caught_up: bool = False,
) -> Reclaimed:
    """Keep what was accepted and free what no page of a request needs (semantics C.7); commit recurrent state (C.9).

    ``row`` int64 [request] are the live rows of the verify, and ``window`` int64 [request*node] holds on the device
    the slots that ``given`` has on the host. The host knows which slots fall free before it could see what the device
    says. ``is_caught_up`` is handed to ``IterationLedger.commit``.
    """
    num_nodes, seq_lens = verify_input.num_draft_tokens, verify_input.seq_lens[: len(given)]
    going_on = [request for request, finish in enumerate(truncation.finishes) if finish is None]
    accepted = Accepted.of(truncation, going_on, num_nodes, row.device)
    slots = np.array([one.slots for one in given], dtype=np.int64).reshape(len(given), num_nodes)
    starts = np.array([one.start for one in given], dtype=np.int64)
    freed = slots[evicted_nodes(truncation.accept_index, starts, num_nodes, page_size)]
    counts = [int(count) for count in count_tokens(truncation.batch_num_accepted_drafts)]
    kept = None
    if page_size_of_beams(topk, page_size) > 1:
        num_kept = sum(counts[place] for place in going_on)
        new_lens, committed, kept = _move_to_the_front(seq_lens, window, accepted, freed, num_kept, page_size, pools)
        on_host = [own[:count].tolist() for own, count in zip(slots, counts, strict=True)]
    else:
        evict_mask = gpu.remap_accepted_slots(row, pools.req_to_token, seq_lens, window, accepted.accept_index)
        if checks_values():
            if page_size > 1:
                gpu.align_evict_mask_to_page_size(seq_lens, evict_mask, num_nodes, page_size)
            _require_freed(window[evict_mask], freed)
        new_lens = seq_lens + count_tokens(accepted.num_accepted_drafts)
        committed = window.index_select(0, accepted.nodes)
        on_host = [slots.reshape(-1)[path[path >= 0]].tolist() for path in truncation.accept_index]
    ledger.free(freed)
    ledger.commit(on_host, is_caught_up)
    num_accepted_tokens = count_tokens(accepted.num_accepted_drafts)
    if pools.states:
        pools.commit_states(scratch, row, seq_lens, accepted.accept_index, num_accepted_tokens, num_nodes)
    hidden_states = verify_output.hidden_states
    everyone = EagleDraftExtendInput(
        req_pool_indices=row,
        seq_lens=new_lens,
        seq_lens_cpu=tuple(one.start + count for one, count in zip(given, counts, strict=True)),
        num_accepted_drafts=accepted.num_accepted_drafts,
        num_accepted_tokens=num_accepted_tokens,
        num_accepted_tokens_cpu=tuple(counts),
        input_ids=verify_output.predict.index_select(0, accepted.nodes).long(),
        hidden_states=None if hidden_states is None else hidden_states.index_select(0, accepted.nodes),
        out_cache_loc=committed,
    )
    is_whole = len(going_on) == len(given)
    remaining = everyone if is_whole else filter_batch(everyone, going_on, take=take_entries)
    return everyone, remaining if kept is None else replace(remaining, out_cache_loc=kept)


def evicted_nodes(
    accept_index: NDArray[np.int32], starts: NDArray[np.int64], num_nodes: int, page_size: int
) -> NDArray[np.bool_]:
    """Return bool [request, node]: the places of each window whose slots no one keeps.

    On larger pages everything stays up to the end of the last accepted position's page: a chain lies in front already,
    and a tree is moved there.
    """
    if page_size == 1:
        is_evicted = np.ones(len(accept_index) * num_nodes, dtype=np.bool_)
        is_evicted[accept_index[accept_index >= 0]] = False
        return is_evicted.reshape(len(accept_index), num_nodes)
    ends = ceil_to(starts + (accept_index >= 0).sum(axis=1), page_size)
    beyond: NDArray[np.bool_] = starts[:, None] + np.arange(num_nodes) >= ends[:, None]
    return beyond


def _move_to_the_front(
    seq_lens: Tensor,
    window: Tensor,
    accepted: Accepted,
    freed: NDArray[np.int64],
    num_kept: int,
    page_size: int,
    pools: Pools,
) -> tuple[Tensor, Tensor, Tensor]:
    """Move the accepted KV of trees on pages to where the map has their positions.

    Return the lengths of the batch, the slots of its accepted positions, and those of the requests that go on.
    """
    drafts, num_nodes = accepted.num_accepted_drafts, accepted.num_nodes
    source_slots, to_free_num_slots = gpu.get_src_tgt_cache_loc(
        seq_lens, window, accepted.nodes.int(), drafts, num_nodes, page_size
    )
    target_slots, to_free_slots = gpu.get_target_cache_loc(
        drafts, to_free_num_slots, window, num_nodes, source_slots.shape[0], len(freed)
    )
    if checks_values():
        _require_freed(to_free_slots, freed)
    pools.move_kv(Side.TARGET, target_slots, source_slots, gpu)
    new_lens = seq_lens.clone()
    num_unfinished_tokens = gpu.create_num_accepted_drafts_filter(drafts, accepted.places, new_lens)
    kept = gpu.filter_finished_cache_loc(target_slots, drafts, num_unfinished_tokens, num_kept)
    return new_lens, target_slots, kept


def _require_freed(got: Tensor, expected: NDArray[np.int64]) -> None:
    seen = to_numpy(got).tolist()
    require(seen == expected.tolist(), "slots that the device gives back", seen, expected.tolist())
