"""What V1 does when the host has seen which nodes were accepted: slots freed, KV mapped or moved, lengths moved on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specsim import gpu
from specsim.assertion import require
from specsim.counts import ceil_to, count_tokens, page_size_of_beams
from specsim.gpu.arrays import to_numpy
from specsim.gpu.switches import checks_values
from specsim.gpu.worker.pools import Buffers, Pools
from specsim.gpu.worker.transfer import upload
from specsim.host.truncation import Truncation
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import Side
from specsim.simulation.synchronous import IterationLedger


@dataclass(frozen=True)
class Reclaimed:
    """What the requests that go on take with them; arrays of the device first, then what the host knows of them.

    ``seq_lens`` int64 [request] and ``num_accepted_tokens`` int32 [request] are those of the whole batch; ``places``
    int64 say which requests of it go on, ``accept_indices`` int64 [token] which nodes they take, and ``out_cache_loc``
    int64 [token] where their KV lies.
    """

    seq_lens: Tensor
    num_accepted_tokens: Tensor
    places: Tensor
    accept_indices: Tensor
    out_cache_loc: Tensor
    seq_lens_cpu: tuple[int, ...]
    num_accepted_tokens_cpu: tuple[int, ...]


@dataclass(frozen=True)
class Accepted:
    """What was accepted, on the device: paths and counts of the whole batch, and who goes on with which nodes.

    ``accept_index`` and ``nodes``, its entries without the padding, are int32, as is ``num_accepted_drafts`` [request];
    ``places`` and ``accept_indices`` are int64. A tree has ``num_nodes`` nodes.
    """

    num_nodes: int
    accept_index: Tensor
    nodes: Tensor
    num_accepted_drafts: Tensor
    places: Tensor
    accept_indices: Tensor

    @classmethod
    def of(cls, truncation: Truncation, going_on: Sequence[int], num_nodes: int, device: torch.device) -> "Accepted":
        """Bring it there in one copy that nobody waits for."""
        accept_index, drafts = truncation.accept_index, truncation.batch_num_accepted_drafts
        kept = accept_index[going_on]
        narrow = accept_index, accept_index[accept_index >= 0], drafts
        paths, nodes, counts, *wide = upload([*narrow, going_on, kept[kept >= 0]], device)
        return cls(num_nodes, paths.int().view(accept_index.shape), nodes.int(), counts.int(), *wide)


def reclaim(
    row: Tensor,
    seq_lens: Tensor,
    num_nodes: int,
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

    ``row`` and ``seq_lens`` int64 [request] are those before the verify, and ``window`` int64 [request*node] holds on
    the device the slots that ``given`` has on the host. The host knows which slots fall free before it could see what
    the device says. ``is_caught_up`` is what ``IterationLedger.commit`` is told.
    """
    going_on = [request for request, finish in enumerate(truncation.finishes) if finish is None]
    accepted = Accepted.of(truncation, going_on, num_nodes, row.device)
    slots = np.array([one.slots for one in given], dtype=np.int64).reshape(len(given), num_nodes)
    starts = np.array([one.start for one in given], dtype=np.int64)
    freed = slots[evicted_nodes(truncation.accept_index, starts, num_nodes, page_size)]
    counts = [int(count) for count in count_tokens(truncation.batch_num_accepted_drafts)]
    if page_size_of_beams(topk, page_size) > 1:
        new_lens, kept = _move_to_the_front(seq_lens, window, accepted, freed, page_size, pools)
        committed = [own[:count].tolist() for own, count in zip(slots, counts, strict=True)]
    else:
        new_lens, kept = _map(row, seq_lens, window, accepted, freed, page_size, pools)
        paths = [path[path >= 0] for path in truncation.accept_index]
        committed = [slots.reshape(-1)[path].tolist() for path in paths]
    ledger.free(freed)
    ledger.commit(committed, is_caught_up)
    num_accepted_tokens = count_tokens(accepted.num_accepted_drafts)
    if pools.states:
        paths_there = accepted.accept_index
        pools.commit_states(scratch, row, seq_lens, paths_there, num_accepted_tokens, num_nodes)
    return Reclaimed(
        seq_lens=new_lens,
        num_accepted_tokens=num_accepted_tokens,
        places=accepted.places,
        accept_indices=accepted.accept_indices,
        out_cache_loc=kept,
        seq_lens_cpu=tuple(given[place].start + counts[place] for place in going_on),
        num_accepted_tokens_cpu=tuple(counts[place] for place in going_on),
    )


def evicted_nodes(
    accept_index: NDArray[np.int32], starts: NDArray[np.int64], num_nodes: int, page_size: int
) -> NDArray[np.bool_]:
    """Return bool [request, node]: the places of each window whose slots nobody keeps.

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


def _map(
    row: Tensor,
    seq_lens: Tensor,
    window: Tensor,
    accepted: Accepted,
    freed: NDArray[np.int64],
    page_size: int,
    pools: Pools,
) -> tuple[Tensor, Tensor]:
    """Let the map follow the accepted KV; return the lengths of the batch, and the slots of who goes on."""
    evict_mask = gpu.remap_accepted_slots(row, pools.req_to_token, seq_lens, window, accepted.accept_index)
    if checks_values():
        if page_size > 1:
            gpu.align_evict_mask_to_page_size(seq_lens, evict_mask, accepted.num_nodes, page_size)
        _require_freed(window[evict_mask], freed)
    return seq_lens + count_tokens(accepted.num_accepted_drafts), window.index_select(0, accepted.accept_indices)


def _move_to_the_front(
    seq_lens: Tensor,
    window: Tensor,
    accepted: Accepted,
    freed: NDArray[np.int64],
    page_size: int,
    pools: Pools,
) -> tuple[Tensor, Tensor]:
    """Move the accepted KV of trees on pages to where the map has their positions; return what ``_map`` does."""
    drafts, num_nodes = accepted.num_accepted_drafts, accepted.num_nodes
    source_slots, to_free_num_slots = gpu.get_src_tgt_cache_loc(
        seq_lens, window, accepted.nodes, drafts, num_nodes, page_size
    )
    target_slots, to_free_slots = gpu.get_target_cache_loc(
        drafts, to_free_num_slots, window, num_nodes, source_slots.shape[0], len(freed)
    )
    if checks_values():
        _require_freed(to_free_slots, freed)
    pools.move_kv(Side.TARGET, target_slots, source_slots)
    new_lens = seq_lens.clone()
    num_unfinished_tokens = gpu.create_num_accepted_drafts_filter(drafts, accepted.places, new_lens)
    kept = gpu.filter_finished_cache_loc(target_slots, drafts, num_unfinished_tokens, accepted.accept_indices.shape[0])
    return new_lens, kept


def _require_freed(got: Tensor, expected: NDArray[np.int64]) -> None:
    seen = to_numpy(got).tolist()
    require(seen == expected.tolist(), "slots that the device gives back", seen, expected.tolist())
