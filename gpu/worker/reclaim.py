"""What V1 does when the host has seen which nodes were accepted: slots freed, positions mapped, lengths moved on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from specsim import gpu
from specsim.assertion import require
from specsim.counts import count_tokens
from specsim.gpu.arrays import to_numpy
from specsim.gpu.switches import checks_values
from specsim.gpu.worker.pools import Buffers, Pools
from specsim.gpu.worker.transfer import upload
from specsim.host.truncation import Truncation
from specsim.phases import DraftInput
from specsim.simulation.memory import SlotRange
from specsim.simulation.synchronous import IterationLedger


@dataclass(frozen=True)
class Reclaimed:
    """What the requests that go on take with them; arrays of the device first, then what the host knows of them.

    ``seq_lens`` int64 [request] and ``num_accepted_tokens`` int32 [request] are those of the whole batch; ``places``
    int64 say which requests of it go on, ``accept_indices`` int64 [token] which nodes they take.
    """

    seq_lens: Tensor
    num_accepted_tokens: Tensor
    places: Tensor
    accept_indices: Tensor
    seq_lens_cpu: tuple[int, ...]
    num_accepted_tokens_cpu: tuple[int, ...]


def reclaim(
    draft_input: DraftInput,
    num_nodes: int,
    window: Tensor,
    given: Sequence[SlotRange],
    truncation: Truncation,
    scratch: Buffers,
    pools: Pools,
    ledger: IterationLedger,
) -> Reclaimed:
    """Map the accepted positions and free every other verify slot (semantics C.7); commit recurrent state (C.9).

    ``window`` int64 [request*node] holds on the device the slots that ``given`` has on the host.
    """
    row, accept_index = draft_input.req_pool_indices, truncation.accept_index
    slots = np.array([slot for one in given for slot in one.slots], dtype=np.int64)
    evict_mask = evicted_nodes(accept_index, num_nodes)
    ledger.free(slots[evict_mask])
    paths = [path[path >= 0] for path in accept_index]
    ledger.commit([slots[path].tolist() for path in paths])
    counts = [int(count) for count in count_tokens(truncation.batch_num_accepted_drafts)]
    going_on = [request for request, finish in enumerate(truncation.finishes) if finish is None]
    kept = [node for request in going_on for node in paths[request].tolist()]
    uploaded = upload([accept_index, counts, going_on, kept], row.device)
    flat_paths, counts_there, places, accept_indices = uploaded
    paths_there, num_accepted_tokens = flat_paths.int().view(accept_index.shape), counts_there.int()
    mapped = gpu.remap_accepted_slots(row, pools.req_to_token, draft_input.seq_lens, window, paths_there)
    if checks_values():
        got = to_numpy(mapped).tolist()
        require(got == evict_mask.tolist(), "slots that the device evicts", got, evict_mask.tolist())
    if pools.states:
        pools.commit_states(scratch, row, draft_input.seq_lens, paths_there, num_accepted_tokens, num_nodes)
    return Reclaimed(
        seq_lens=draft_input.seq_lens + counts_there,
        num_accepted_tokens=num_accepted_tokens,
        places=places,
        accept_indices=accept_indices,
        seq_lens_cpu=tuple(given[place].start + counts[place] for place in going_on),
        num_accepted_tokens_cpu=tuple(counts[place] for place in going_on),
    )


def evicted_nodes(accept_index: NDArray[np.int32], num_nodes: int) -> NDArray[np.bool_]:
    """Return bool [request*node]: the nodes whose slots nobody keeps, as ``remap_accepted_slots`` finds them.

    The host needs them before it could see what the device wrote. Larger pages have to align them first.
    """
    evict_mask = np.ones(len(accept_index) * num_nodes, dtype=np.bool_)
    evict_mask[accept_index[accept_index >= 0]] = False
    return evict_mask
