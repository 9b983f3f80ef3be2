"""What a worker keeps of its requests: the maps, the KV pools and recurrent state.

Row 0 absorbs the requests that pad a batch, slot 0 what they write.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.arrays import from_numpy, to_numpy
from specsim.gpu.move import MOST_PAIRS_IN_REGISTERS
from specsim.gpu.worker.fused import lay_out_nodes
from specsim.gpu.worker.fused_drafts import lay_out_beams
from specsim.phases import DraftExtendInput, EagleDraftExtendInput, VerifyInput
from specsim.simulation.draft_sides.layer import Beams
from specsim.simulation.handing_over import Contents
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.batches import ListedKeys, PagedKeys, WindowKeys
from specsim.simulation.models.description import KVComponent, ModelDescription, Side
from specsim.simulation.models.moving import layer_by_layer, pool_of
from specsim.simulation.models.poison import poison_of

Buffers = Mapping[str, Sequence[Tensor]]


class Pools:
    """The request-to-token map, and the buffers of every component of a model.

    Parameters
    ----------
    description : ModelDescription
        What the model declares.
    num_nodes : int
        Nodes of the widest tree.
    sizes : PoolSizes
        Slots, rows and row width.
    device : torch.device
        Where they lie.
    """

    def __init__(self, description: ModelDescription, num_nodes: int, sizes: PoolSizes, device: torch.device) -> None:
        rows = sizes.num_rows
        self.req_to_token = torch.zeros((rows, sizes.row_width), dtype=torch.int32, device=device)
        self.kv = {
            side: {one.name: _empty_buffers(one, sizes, device) for one in description.components_of(side)}
            for side in Side
        }
        self._movable = {
            side: pool_of(description, side, self.kv[side], gpu.KVBuffers, gpu.KVBuffers.of_indexer) for side in Side
        }
        self.window = description.window
        # NOTE: SWA slots are looked up position by position.
        self._page_size = 1 if self.window else sizes.page_size
        self.full_to_swa = torch.zeros(sizes.num_slots, dtype=torch.int64, device=device)
        self.swa_kv: Buffers = {one.name: _empty_buffers(one, sizes, device) for one in description.swa_components}
        self._swa_rows = gpu.KVBuffers(layer_by_layer(self.swa_kv))
        self.states: Buffers = {
            one.name: [
                torch.zeros((rows, *one.row_shape), dtype=getattr(torch, one.dtype), device=device)
                for _ in range(one.num_layers)
            ]
            for one in description.state_components
        }
        self._state_buffers = gpu.KVBuffers(layer_by_layer(self.states))
        self._description = description
        self.verify_keys: PagedKeys[Tensor] | None = None
        self._make_scratch(num_nodes)

    def _make_scratch(self, num_nodes: int) -> None:
        """Make what depends on the sizes of drafts: room for the states after every node."""
        rows, device = self.req_to_token.shape[0], self.req_to_token.device
        self._steps: dict[tuple[int, ...], gpu.KVBuffers] = {}
        self._scratch: Buffers = {
            one.name: [
                torch.full(
                    (rows, num_nodes, *one.row_shape),
                    poison_of(one.dtype),
                    dtype=getattr(torch, one.dtype),
                    device=device,
                )
                for _ in range(one.num_layers)
            ]
            for one in self._description.state_components
        }

    def resized(self, num_nodes: int) -> "Pools":
        """Return the same maps, KV and states for trees of another width."""
        resized = copy(self)
        resized._make_scratch(num_nodes)
        return resized

    def after(self, verify_keys: PagedKeys[Tensor]) -> "Pools":
        """Return the same pools as a verify left them, for a draft that fills its window again."""
        verified = copy(self)
        verified.verify_keys = verify_keys
        return verified

    def open(self, side: Side, slots: Tensor) -> Buffers:
        """Return the buffers of a side for a forward, whose writes are not counted."""
        del slots
        return self.kv[side]

    def move_kv(self, side: Side, target_slots: Tensor, source_slots: Tensor, operations: Any) -> None:
        """Copy all that a side stores by slot: every buffer with a row a slot in one launch (semantics C.6).

        Raises
        ------
        SpecRejection
            NO_MOVE: a component of the side cannot be moved; UNMAPPED_SLOT: one slot of a pair has an SWA slot, the
            other none.
        """
        has_window = side is Side.TARGET and len(self.swa_kv) > 0
        swa_slots = operations.translate_move_slots(target_slots, source_slots, self.full_to_swa) if has_window else ()
        self._movable[side].move(target_slots, source_slots, operations)
        if has_window:
            operations.move_kv_cache(self._swa_rows, *swa_slots)

    def assign_slots(self, assigned: Sequence[Tensor]) -> None:
        """Write slots into the map, and the SWA slots that they have, as ``flat_ranges`` lays them out."""
        rows, starts, ends, mapped, swa_slots, slots = assigned
        gpu.assign_req_to_token_pool(rows, self.req_to_token, starts, ends, slots)
        if self.swa_kv:
            self.full_to_swa.index_copy_(0, mapped, swa_slots)

    def window_keys(self, page_table: Tensor, out_cache_loc: Tensor) -> WindowKeys[Tensor] | None:
        """Return where the layers with a sliding window write and read (semantics B.3)."""
        if not self.swa_kv:
            return None
        there = self.full_to_swa.index_select(0, page_table.reshape(-1)).view(page_table.shape)
        return WindowKeys(self.swa_kv, self.full_to_swa.index_select(0, out_cache_loc), there, self.window)

    def scratch(self, num_requests: int, num_nodes: int) -> Buffers:
        """Return buffers [request, node, *row_shape] for the states after every node of a batch."""
        scratch = {
            name: [layer[:num_requests, :num_nodes] for layer in layers] for name, layers in self._scratch.items()
        }
        if scratch and _size_of(scratch) not in self._steps:
            # NOTE: what a graph captures cannot bring addresses to the device; the warm-up before it does.
            self._steps[_size_of(scratch)] = gpu.KVBuffers.of_steps(layer_by_layer(scratch))
        return scratch

    def reset_states(self, rows: Tensor) -> None:
        """Bring requests to where they are before their first token."""
        for layers in self.states.values():
            for state in layers:
                state.index_fill_(0, rows, 0)

    def commit_states(
        self,
        scratch: Buffers,
        rows: Tensor,
        seq_lens: Tensor,
        accept_index: Tensor,
        num_accepted_tokens: Tensor,
        num_nodes: int,
    ) -> None:
        """Keep the state after the last accepted node of each request (semantics C.9).

        No prefix is shared, so there is no snapshot.
        """
        commit_step, snapshot_step = gpu.get_recurrent_steps(accept_index, num_accepted_tokens, seq_lens, num_nodes, 0)
        steps = self._steps[_size_of(scratch)]
        gpu.commit_recurrent_states(self._state_buffers, steps, rows, commit_step, rows, snapshot_step)

    def read_slots(self, row: Tensor, seq_lens: Tensor, count: int, operations: Any) -> Tensor:
        """Return int64 [request*count], the slots of the ``count`` positions from each request's length."""
        ends, num_locations = seq_lens + count, len(row) * count
        slots: Tensor = operations.assign_extend_cache_locs(row, self.req_to_token, seq_lens, ends, num_locations)
        return slots

    def beams(
        self, row: Tensor, seq_lens: Tensor, config: SpecConfig, page_size: int, operations: Any
    ) -> Beams[Tensor]:
        """Return what beams read and write; pages of their own begin with a copy of the text's last page."""
        topk = config.topk
        # NOTE: lengths lie on the device: a beam gets a place for every slot that its text may have on a last page.
        num_copies = len(row) * (topk - 1) * (page_size - 1)
        positions, step_cache_loc, source_slots, target_slots, *keys = lay_out_beams(
            row, self.req_to_token, seq_lens, topk, config.num_steps, page_size, num_copies
        )
        # NOTE: no pair writes what another one reads, so that they can be moved in parts that need no scratch memory.
        for begin in range(0, num_copies, MOST_PAIRS_IN_REGISTERS):
            part = slice(begin, begin + MOST_PAIRS_IN_REGISTERS)
            self.move_kv(Side.DRAFT, target_slots[part], source_slots[part], operations)
        return Beams(positions, step_cache_loc, *keys)

    def nodes(self, row: Tensor, seq_lens: Tensor, num_nodes: int, operations: Any) -> tuple[Tensor, PagedKeys[Tensor]]:
        """Return slots and keys of a forward over so many nodes of each request; page tables are as wide as rows."""
        slots, cache_seqlens, cu_seqlens_q, page_table = lay_out_nodes(
            row, self.req_to_token, seq_lens, num_nodes, self._page_size
        )
        return slots, PagedKeys(page_table, cache_seqlens, cu_seqlens_q, self._page_size)

    def ragged_nodes(self, row: Tensor, seq_lens: Tensor, lengths: Tensor) -> PagedKeys[Tensor]:
        """Return the keys of a forward over int32 [request] nodes of each request; page tables are as wide as rows."""
        cache_seqlens, cu_seqlens_q, _, page_table = gpu.ragged_verify_metadata(
            row, self.req_to_token, seq_lens, lengths, self.req_to_token.shape[1], self._page_size
        )
        return PagedKeys(page_table, cache_seqlens, cu_seqlens_q, self._page_size)

    def keys_of_extend(
        self, row: Tensor, verify_input: VerifyInput, phase: DraftExtendInput, operations: Any
    ) -> PagedKeys[Tensor]:
        """Return the keys that the verify had, whose window is filled again."""
        return require_present("keys of the verify", self.verify_keys)

    def ragged_keys(self, phase: EagleDraftExtendInput, operations: Any) -> PagedKeys[Tensor]:
        """Return the keys of a forward over the accepted tokens."""
        row, counts, num_keys = phase.req_pool_indices, phase.num_accepted_tokens, sum(phase.seq_lens_cpu)
        qo_indptr, kv_indptr, kv_indices = operations.generate_attn_arg_prefill(
            row, self.req_to_token, phase.seq_lens, counts, num_keys
        )
        # NOTE: past a request's own keys its row of pages goes on with those of the next one, which no one reads.
        place = kv_indptr[:-1, None] + torch.arange(max(phase.seq_lens_cpu, default=0), device=row.device)
        page_table = kv_indices[place.clamp(max=max(num_keys - 1, 0))]
        return PagedKeys(page_table, phase.seq_lens.int(), qo_indptr, 1)

    def listed_keys(self, row: Tensor, seq_lens: Tensor, operations: Any) -> ListedKeys[Tensor]:
        """Return all that is committed of each of these rows as a list, which has room for whole rows."""
        width, ones = self.req_to_token.shape[1], torch.ones(len(row), dtype=torch.int32, device=row.device)
        _, kv_indptr, kv_indices = operations.generate_attn_arg_prefill(
            row, self.req_to_token, seq_lens, ones, len(row) * width
        )
        return ListedKeys(kv_indices, kv_indptr, width)

    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[NDArray[Any]]]:
        """Return what both sides have in some slots, and the states of a row, as NumPy arrays (semantics Q.7).

        The copies run on the stream of the forwards, after all moves of the iterations that were launched.
        """
        chosen = torch.tensor(slots, dtype=torch.int64, device=self.req_to_token.device)
        names = {Side.TARGET: "target_kv", Side.DRAFT: "draft_kv"}
        contents = {
            **{
                name: [to_numpy(buffer.index_select(0, chosen)) for buffer in layer_by_layer(self.kv[side])]
                for side, name in names.items()
            },
            "states": [to_numpy(state[row].clone()) for layers in self.states.values() for state in layers],
        }
        if self.swa_kv:
            there = self.full_to_swa.index_select(0, chosen)
            entries = [buffer.index_select(0, there) for buffer in layer_by_layer(self.swa_kv)]
            contents["swa_kv"] = [to_numpy(rows.index_fill_(0, (there == 0).nonzero()[:, 0], 0)) for rows in entries]
        return contents

    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Write what was exported elsewhere into some slots, and the states into a row (semantics Q.7).

        The copies run on the stream of the forwards, before the first one of the request.
        """
        chosen = torch.tensor(slots, dtype=torch.int64, device=self.req_to_token.device)
        for side, name in ((Side.TARGET, "target_kv"), (Side.DRAFT, "draft_kv")):
            for buffer, entries in zip(layer_by_layer(self.kv[side]), contents[name], strict=True):
                buffer.index_copy_(0, chosen, from_numpy(entries))
        for buffer, entries in zip(layer_by_layer(self.swa_kv), contents.get("swa_kv", ()), strict=True):
            last = chosen[len(slots) - len(entries) :]
            buffer.index_copy_(0, self.full_to_swa.index_select(0, last), from_numpy(entries))
        states = [state for layers in self.states.values() for state in layers]
        for state, entries in zip(states, contents["states"], strict=True):
            state[row] = from_numpy(entries)

    def state(self) -> dict[str, Any]:
        """Return everything by name, as NumPy arrays."""
        maps = {"req_to_token": self.req_to_token}
        pools = {
            "target_kv": layer_by_layer(self.kv[Side.TARGET]),
            "draft_kv": layer_by_layer(self.kv[Side.DRAFT]),
            "states": [state for layers in self.states.values() for state in layers],
        }
        if self.swa_kv:
            maps["full_to_swa"] = self.full_to_swa
            pools["swa_kv"] = layer_by_layer(self.swa_kv)
        return {name: to_numpy(value) for name, value in maps.items()} | {
            name: [to_numpy(buffer) for buffer in buffers] for name, buffers in pools.items()
        }


def flat_ranges(ranges: Sequence[SlotRange]) -> list[list[int]]:
    """Return rows, first and last positions, slots that have SWA slots, these, and the slots of the rows."""
    mapped = [slot for given in ranges if given.swa_slots for slot in (*given.slots, *given.remapped)]
    return [
        [given.row for given in ranges],
        [given.start for given in ranges],
        [given.end for given in ranges],
        mapped,
        [slot for given in ranges for slot in given.swa_slots],
        [slot for given in ranges for slot in given.slots],
    ]


def _empty_buffers(component: KVComponent, sizes: PoolSizes, device: torch.device) -> list[Tensor]:
    num_slots = sizes.num_swa_slots if component.window else sizes.num_slots
    shape, dtype = component.buffer_shape(num_slots), getattr(torch, component.dtype)
    poison = poison_of(component.dtype)
    return [torch.full(shape, poison, dtype=dtype, device=device) for _ in range(component.num_layers)]


def _size_of(scratch: Buffers) -> tuple[int, ...]:
    """Return requests and nodes of states after every node."""
    return tuple(next(iter(scratch.values()))[0].shape[:2])
