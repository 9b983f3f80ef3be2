"""What all requests of a worker share: the request-to-token map, the KV pools of both sides, and recurrent state."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy knows the names of small floating-point types by it.
import numpy as np

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.operations.protocol import Operations
from specsim.phases import DraftExtendInput, EagleDraftExtendInput, VerifyInput
from specsim.simulation.draft_sides.layer import Beams
from specsim.simulation.handing_over import Contents
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.batches import ListedKeys, PagedKeys, WindowKeys
from specsim.simulation.models.description import KVComponent, ModelDescription, Side
from specsim.simulation.models.kv_pool import FULL_SHARE, Door, KVPool, Reads, raise_versions
from specsim.simulation.models.moving import Pool, layer_by_layer, pool_of
from specsim.simulation.models.poison import poison_of

Buffers = Mapping[str, Sequence[Array]]


@dataclass(frozen=True)
class Pools:
    """One map and the buffers of every component by side and name, all written in place.

    The map is int32 [row, position], a KV buffer what its component says, a state buffer [row, *row_shape]. Layers with
    a sliding window have buffers ``swa_kv`` [SWA slot, *row_shape], and ``full_to_swa`` int64 [slot] says which slot.
    KV is written through ``open`` by forwards and through ``move_kv`` by moves, so that it is known which slots were.
    Of the maps nothing is kept: every forward gets the slots that they say at the time. ``movable`` is what each side
    moves of its full slots.
    """

    req_to_token: Array
    kv: Mapping[Side, KVPool]
    movable: Mapping[Side, Pool[Array]]
    states: Buffers
    scratch_forms: Mapping[str, tuple[int, tuple[int, ...], str]]
    reads: Reads
    drawn: random.Random
    window: int
    full_to_swa: Array
    swa_kv: Buffers

    @classmethod
    def of(
        cls,
        description: ModelDescription,
        sizes: PoolSizes,
        reads: Reads = Reads.FULL,
        door: Door = raise_versions,
    ) -> "Pools":
        """Return empty pools of what a model declares; ``door`` counts writes of KV."""
        states = description.state_components
        is_watched = reads is not Reads.FULL

        def kv_of(side: Side) -> KVPool:
            components = description.components_of(side)
            buffers = {one.name: empty_buffers(one, sizes) for one in components}
            layouts = {one.name: one.layout for one in components}
            return KVPool(buffers, sizes.num_slots, is_watched, door, layouts)

        kv = {side: kv_of(side) for side in Side}
        return cls(
            req_to_token=np.zeros((sizes.num_rows, sizes.row_width), dtype=np.int32),
            kv=kv,
            movable={side: pool_of(description, side, kv[side]) for side in Side},
            states={
                one.name: [np.zeros((sizes.num_rows, *one.row_shape), one.dtype) for _ in range(one.num_layers)]
                for one in states
            },
            scratch_forms={one.name: (one.num_layers, one.row_shape, one.dtype) for one in states},
            reads=reads,
            drawn=random.Random(0),
            window=description.window,
            full_to_swa=np.zeros(sizes.num_slots, dtype=np.int64),
            swa_kv={one.name: empty_buffers(one, sizes) for one in description.swa_components},
        )

    def start_iteration(self) -> None:
        """Draw, where that is asked for, whether the next forwards read everything, and check then what is kept."""
        if self.reads is Reads.DRAWN:
            is_full = self.drawn.random() < FULL_SHARE
            for pool in self.kv.values():
                pool.is_kept = not is_full
                if is_full:
                    pool.check()

    def open(self, side: Side, slots: Array) -> KVPool:
        """Return the buffers of a side for a forward that writes these slots."""
        return self.kv[side].open(slots)

    def move_kv(self, side: Side, target_slots: Array, source_slots: Array, operations: Operations[Array]) -> None:
        """Copy all that a side stores by slot; whatever is written counts, reported or not.

        Raises
        ------
        SpecRejection
            NO_MOVE: a component of the side cannot be moved; UNMAPPED_SLOT: one slot of a pair has an SWA slot, the
            other has none. Nothing was moved.
        """
        has_window = side is Side.TARGET and len(self.swa_kv) > 0
        swa_slots = operations.translate_move_slots(target_slots, source_slots, self.full_to_swa) if has_window else ()
        with self.kv[side].writing():
            self.movable[side].move(target_slots, source_slots, operations)
        if has_window:
            operations.move_kv_cache(layer_by_layer(self.swa_kv), *swa_slots)

    def beams(
        self, row: Array, seq_lens: Array, config: SpecConfig, page_size: int, operations: Operations[Array]
    ) -> Beams[Array]:
        """Return what beams read and write; pages of their own begin with a copy of the text's last page."""
        topk, num_steps = config.topk, config.num_steps
        num_copies = (topk - 1) * int((seq_lens % page_size).sum())
        located = operations.assign_draft_cache_locs(
            row, self.req_to_token, seq_lens, topk, num_steps, page_size, num_copies
        )
        if num_copies:
            self.move_kv(Side.DRAFT, located.target_slots, located.source_slots, operations)
        positions = np.repeat(seq_lens, topk)
        step_cache_loc = operations.per_step_draft_out_cache_loc(located.out_cache_loc, topk, num_steps)
        keys = operations.generate_draft_decode_kv_indices(
            row, self.req_to_token, seq_lens, positions, topk, num_steps, page_size
        )
        return Beams(positions + np.arange(num_steps)[:, None], step_cache_loc, *keys)

    def keys_of_nodes(
        self, row: Array, seq_lens: Array, num_nodes: int, operations: Operations[Array]
    ) -> PagedKeys[Array]:
        """Return the keys of a forward over so many nodes of each request: all that is committed, and the nodes."""
        longest = int(seq_lens.max(initial=0)) + (num_nodes if len(row) else 0)
        found = operations.target_verify_metadata(row, self.req_to_token, seq_lens, len(row) * num_nodes, longest, 1)
        return PagedKeys(found.page_table, found.cache_seqlens, found.cu_seqlens_q, 1)

    def nodes(
        self, row: Array, seq_lens: Array, num_nodes: int, operations: Operations[Array]
    ) -> tuple[Array, PagedKeys[Array]]:
        """Return slots and keys of a forward over so many nodes of each request."""
        slots = self.read_slots(row, seq_lens, num_nodes, operations)
        return slots, self.keys_of_nodes(row, seq_lens, num_nodes, operations)

    def keys_of_extend(
        self, row: Array, verify_input: VerifyInput, phase: DraftExtendInput, operations: Operations[Array]
    ) -> PagedKeys[Array]:
        """Return the keys of a forward that fills the window of a verify again."""
        keys = self.keys_of_nodes(row, verify_input.seq_lens, verify_input.num_draft_tokens, operations)
        return PagedKeys(keys.page_table, phase.forward_seq_lens.astype(np.int32), keys.cu_seqlens_q, 1)

    def ragged_keys(self, phase: EagleDraftExtendInput, operations: Operations[Array]) -> PagedKeys[Array]:
        """Return the keys of a forward over the accepted tokens."""
        row, counts, num_keys = phase.req_pool_indices, phase.num_accepted_tokens, sum(phase.seq_lens_cpu)
        found = operations.generate_attn_arg_prefill(row, self.req_to_token, phase.seq_lens, counts, num_keys)
        lengths = np.diff(found.kv_indptr)
        # NOTE: rows of a page table are padded with the dump.
        table = np.zeros((len(lengths), int(lengths.max(initial=0))), dtype=np.int32)
        for request, length in enumerate(lengths):
            table[request, :length] = found.kv_indices[found.kv_indptr[request] : found.kv_indptr[request + 1]]
        return PagedKeys(table, lengths, found.qo_indptr, 1)

    def listed_keys(self, row: Array, seq_lens: Array, operations: Operations[Array]) -> ListedKeys[Array]:
        """Return all that is committed of each of these rows as a list."""
        ones = np.ones(len(row), np.int32)
        found = operations.generate_attn_arg_prefill(row, self.req_to_token, seq_lens, ones, int(seq_lens.sum()))
        return ListedKeys(found.kv_indices, found.kv_indptr, self.req_to_token.shape[1])

    def window_keys(self, page_table: Array, out_cache_loc: Array) -> WindowKeys[Array] | None:
        """Return where the layers with a sliding window write and read, for a forward that has these full slots.

        Notes
        -----
        Source: semantics B.3.
        """
        if not self.swa_kv:
            return None
        return WindowKeys(self.swa_kv, self.full_to_swa[out_cache_loc], self.full_to_swa[page_table], self.window)

    def scratch(self, num_requests: int, num_nodes: int) -> Buffers:
        """Return fresh buffers [request, node, *row_shape] for the states after every node of a batch."""
        return {
            name: [np.full((num_requests, num_nodes, *shape), poison_of(dtype), dtype) for _ in range(num_layers)]
            for name, (num_layers, shape, dtype) in self.scratch_forms.items()
        }

    def reset_states(self, row: Array) -> None:
        """Bring requests to where they are before their first token."""
        for layers in self.states.values():
            for state in layers:
                state[row] = 0

    def commit_states(
        self,
        scratch: Buffers,
        row: Array,
        verify_input: VerifyInput,
        accept_index: Array,
        num_accepted_tokens: Array,
        operations: Operations[Array],
    ) -> None:
        """Keep the state after the last accepted node of each request; no prefix is shared, so there is no snapshot.

        Parameters
        ----------
        row : int64 [request]
            Row of each request.
        accept_index : int32 [request, draft+1]
            Accepted paths, cut where a request has ended.
        num_accepted_tokens : int32 [request]
            Their lengths.

        Notes
        -----
        Source: semantics C.9.
        """
        if not self.states:
            return
        steps = operations.get_recurrent_steps(
            accept_index, num_accepted_tokens, verify_input.seq_lens, verify_input.num_draft_tokens, interval=0
        )
        operations.commit_recurrent_states(
            state_buffers=[layer for layers in self.states.values() for layer in layers],
            step_buffers=[layer for name in self.states for layer in scratch[name]],
            state_slots=row,
            snapshot_slots=row,
            **steps._asdict(),
        )

    def assign_slots(self, ranges: Sequence[SlotRange], operations: Operations[Array]) -> None:
        """Write allocated slots into the map, and the SWA slots that they have."""
        operations.assign_req_to_token_pool(
            req_pool_indices=np.array([given.row for given in ranges], dtype=np.int64),
            req_to_token=self.req_to_token,
            start_offsets=np.array([given.start for given in ranges], dtype=np.int64),
            end_offsets=np.array([given.end for given in ranges], dtype=np.int64),
            out_cache_loc=np.array([slot for given in ranges for slot in given.slots], dtype=np.int64),
        )
        for given in ranges:
            if given.swa_slots:
                self.full_to_swa[[*given.slots, *given.remapped]] = given.swa_slots

    def read_slots(self, row: Array, seq_lens: Array, count: int, operations: Operations[Array]) -> Array:
        """Return int64 [request*count], the slots of the ``count`` positions from each request's length."""
        return operations.assign_extend_cache_locs(
            req_pool_indices=row,
            req_to_token=self.req_to_token,
            start_offsets=seq_lens,
            end_offsets=seq_lens + count,
            num_locations=len(row) * count,
        )

    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[Array]]:
        """Return copies of what both sides have in some slots, [slot, *row_shape], and of the states of a row.

        Notes
        -----
        Source: semantics Q.7. A slot without an SWA slot has zeros in layers with a sliding window.
        """
        chosen: Array = np.array(slots, dtype=np.int64)
        contents = {
            "target_kv": [buffer[chosen] for buffer in self.kv[Side.TARGET].layers()],
            "draft_kv": [buffer[chosen] for buffer in self.kv[Side.DRAFT].layers()],
            "states": [state[row].copy() for layers in self.states.values() for state in layers],
        }
        if self.swa_kv:
            there = self.full_to_swa[chosen]
            contents["swa_kv"] = [buffer[there] for buffer in layer_by_layer(self.swa_kv)]
            for entries in contents["swa_kv"]:
                entries[there == 0] = 0
        return contents

    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Write what was exported elsewhere into some slots, and the states into a row.

        Notes
        -----
        Source: semantics Q.7.
        """
        chosen: Array = np.array(slots, dtype=np.int64)
        for side, name in ((Side.TARGET, "target_kv"), (Side.DRAFT, "draft_kv")):
            for buffer, entries in zip(self.open(side, chosen).layers(), contents[name], strict=True):
                buffer[chosen] = entries
        for buffer, entries in zip(layer_by_layer(self.swa_kv), contents.get("swa_kv", ()), strict=True):
            buffer[self.full_to_swa[chosen[len(chosen) - len(entries) :]]] = entries
        states = [state for layers in self.states.values() for state in layers]
        for state, entries in zip(states, contents["states"], strict=True):
            state[row] = entries

    def state(self) -> dict[str, Any]:
        """Return everything by name, for comparison."""
        named: dict[str, Any] = {
            "req_to_token": self.req_to_token,
            "target_kv": self.kv[Side.TARGET].layers(),
            "draft_kv": self.kv[Side.DRAFT].layers(),
            "states": [state for layers in self.states.values() for state in layers],
        }
        if self.swa_kv:
            named |= {"full_to_swa": self.full_to_swa, "swa_kv": layer_by_layer(self.swa_kv)}
        return named


def empty_buffers(component: KVComponent, sizes: PoolSizes) -> list[Array]:
    """Return one KV buffer a layer in which every unwritten entry is recognisably wrong."""
    num_slots = sizes.num_swa_slots if component.window else sizes.num_slots
    shape, poison = component.buffer_shape(num_slots), poison_of(component.dtype)
    return [np.full(shape, poison, dtype=component.dtype) for _ in range(component.num_layers)]


MakePools = Callable[[ModelDescription, PoolSizes, Reads], Pools]
"""How a worker makes its pools."""

CARRIED = ("seq_lens", "bonus_tokens", "topk_p", "topk_index", "hidden_states")
"""Fields of a draft input that wait by request row between iterations."""


def carried_rows(description: ModelDescription, topk: int, sizes: PoolSizes) -> dict[str, Array]:
    """Return one buffer [row, ...] a carried field; none for hidden states that no draft forward takes."""
    rows = sizes.num_rows
    carried: dict[str, Array] = {
        "seq_lens": np.zeros(rows, dtype=np.int64),
        "bonus_tokens": np.zeros(rows, dtype=np.int32),
        "topk_p": np.zeros((rows, topk), dtype=np.float32),
        "topk_index": np.zeros((rows, topk), dtype=np.int64),
    }
    if description.has_draft_hidden:
        carried["hidden_states"] = np.zeros((rows, description.draft_hidden_width), dtype=description.hidden_dtype)
    return carried
