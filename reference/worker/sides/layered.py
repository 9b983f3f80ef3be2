"""The draft side with one small layer a step: windows that grow from layer to layer, and drafts without a forward."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specsim.assertion import require_kind, require_present
from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.phases import (
    Batch,
    DraftExtendInput,
    DraftInput,
    EagleDraftExtendInput,
    PhaseTag,
    VerifyInput,
    VerifyOutput,
    expect_phase,
)
from specsim.reference.worker.draft import chain_of, map_hot, roots
from specsim.reference.worker.extend import ragged_keys
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.reference.worker.sides.extended import ExtendedSide
from specsim.reference.worker.verify import verify_keys
from specsim.simulation.models.batches import DraftExtendBatch, PagedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.layered import LayeredModel, require_layered
from specsim.simulation.sides import Setting, SideFacts


@dataclass(frozen=True)
class Window:
    """What a layer consumes: arrays [token], and [request] where the tokens of each request start and how many it has.

    ``padding`` [request] counts the tokens after the one that proposes, ``ends`` [request] the positions up to here.
    """

    input_ids: Array
    positions: Array
    out_cache_loc: Array
    hidden_states: Array
    starts: Array
    lengths: Array
    padding: Array
    ends: Array

    @property
    def select(self) -> Array:
        """The row of each request that proposes."""
        selected: Array = (self.starts + self.lengths - 1 - self.padding).astype(np.int64)
        return selected


class LayeredSide(ExtendedSide):
    """A layer a step, each with a window of its own; drafts are chains with as many steps as there are layers.

    Other ranks wait for as many forwards whatever a batch is.

    Notes
    -----
    Source: semantics E.4.
    """

    def __init__(self, setting: Setting) -> None:
        config, sizes = setting.drafting, setting.sizes
        description = require_layered(setting.model, config, "numpy")
        super().__init__(setting, SideFacts(description, config.num_steps, borrows=False))
        self._num_layers = config.num_steps
        self._model: LayeredModel[Array] = setting.model
        width = len(description.hidden_layers) * description.hidden_width
        self._pool = np.zeros((sizes.num_rows, self._num_layers - 1, width), dtype=description.hidden_dtype)
        self._firsts = np.zeros(sizes.num_rows, dtype=np.int64)
        self._joining: set[int] = set()

    def join(self, rows: Sequence[int]) -> None:
        """Take note that the next chunk of these rows begins a request."""
        self._joining |= set(rows)

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Run every layer over the chunks, each a token further; one that goes on repairs what was proposed before it.

        A chunk that begins its request has nothing in front that it could grow by.
        """
        rows, starts = after.row.tolist(), after.starts
        for row, start in zip(rows, starts.tolist(), strict=True):
            if row in self._joining or start == 0:
                self._firsts[row], self._pool[row] = start, 0
        self._joining -= set(rows)
        window = Window(
            input_ids=self._operations.rotate_prefill_input_ids(after.input_ids, after.lengths, after.following),
            positions=after.positions,
            out_cache_loc=after.out_cache_loc,
            hidden_states=require_present("hidden_states", after.output.hidden_states),
            starts=(np.cumsum(after.lengths) - after.lengths).astype(np.int32),
            lengths=after.lengths.astype(np.int32),
            padding=np.zeros(len(rows), dtype=np.int32),
            ends=after.ends.astype(np.int64),
        )
        goes_on = bool((starts > self._firsts[after.row]).any())
        table, bonus_tokens = after.keys.page_table, after.following.astype(np.int32)
        return self._follow(after.row, window, table, goes_on, after.lengths, window.ends, bonus_tokens, pools)

    def draft(
        self, start: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Array]
    ) -> VerifyInput:
        """Make a chain of the first candidates; no forward runs."""
        del pools
        expect_phase(start, PhaseTag.EAGLE_DRAFT)
        if config.num_steps == 0:
            return roots(start, verify_slots())
        candidates = map_hot(start.topk_index, self._model, self._operations)
        token_list = [candidates[:, step : step + 1] for step in range(config.num_steps)]
        return chain_of(start, config, token_list, verify_slots, self._operations)

    def extend(
        self,
        row: Array,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
    ) -> DraftInput:
        """Run layer s over the nodes and the s positions in front of them."""
        expect_phase(phase, PhaseTag.EAGLE_DRAFT_EXTEND_V2)
        keys = verify_keys(row, verify_input, pools, self._operations)
        width = phase.num_draft_tokens
        window = Window(
            input_ids=phase.input_ids,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            hidden_states=require_present("hidden_states", phase.hidden_states),
            starts=(np.arange(len(row)) * width).astype(np.int32),
            lengths=np.full(len(row), width, dtype=np.int32),
            padding=(width - phase.num_accepted_tokens).astype(np.int32),
            ends=phase.forward_seq_lens,
        )
        counts, bonus_tokens = phase.num_accepted_tokens, verify_output.bonus_tokens
        seq_lens = verify_input.seq_lens + counts
        return self._follow(row, window, keys.page_table, True, counts, seq_lens, bonus_tokens, pools)

    def extend_ragged(self, batch: Batch, pools: Pools) -> DraftInput:
        """Run layer s over the accepted tokens and the s positions in front of them."""
        expect_phase(batch.info, PhaseTag.EAGLE_DRAFT_EXTEND)
        phase = require_kind("what is installed", batch.info, EagleDraftExtendInput)
        keys = ragged_keys(phase, pools, self._operations)
        row, counts = phase.req_pool_indices, phase.num_accepted_tokens
        window = Window(
            input_ids=phase.input_ids,
            positions=require_present("positions", phase.positions),
            out_cache_loc=phase.out_cache_loc,
            hidden_states=require_present("hidden_states", phase.hidden_states),
            starts=keys.cu_seqlens_q[:-1],
            lengths=counts,
            padding=np.zeros(len(row), dtype=np.int32),
            ends=phase.seq_lens,
        )
        bonus_tokens = require_present("bonus_tokens", phase.bonus_tokens)
        return self._follow(row, window, keys.page_table, True, counts, phase.seq_lens, bonus_tokens, pools)

    def state(self) -> dict[str, Any]:
        """Return the hidden states that wait, by row."""
        return {"hidden_states_pool": self._pool}

    def _follow(
        self,
        row: Array,
        window: Window,
        page_table: Array,
        grows: bool,
        counts: Array,
        seq_lens: Array,
        bonus_tokens: Array,
        pools: Pools,
    ) -> DraftInput:
        """Run all layers, keep the hidden states of what is committed, and return what starts the next drafts."""
        topk_p, topk_index = self._run(row, window, page_table, grows, pools)
        self._keep(row, window, counts)
        return DraftInput(row, seq_lens, topk_p, topk_index, None, bonus_tokens)

    def _run(self, row: Array, window: Window, page_table: Array, grows: bool, pools: Pools) -> tuple[Array, Array]:
        """Run all layers and return what each proposes, float32 and int64 [request, layer]."""
        proposals = []
        for layer in range(self._num_layers):
            # NOTE: what is in front of a request's own positions is shared, and stays as it is.
            own = np.repeat(self._firsts[row], window.lengths)
            slots = np.where(window.positions < own, 0, window.out_cache_loc)
            starts = np.append(window.starts, len(slots)).astype(np.int32)
            drafted = self._model.draft_layer(
                layer,
                DraftExtendBatch(
                    req_pool_indices=row,
                    input_ids=window.input_ids,
                    positions=window.positions,
                    out_cache_loc=slots,
                    keys=PagedKeys(page_table, window.ends.astype(np.int32), starts, 1),
                    hidden_states=window.hidden_states,
                    select=window.select,
                ),
                pools.open(Side.DRAFT, slots),
            )
            proposals.append(self._operations.fast_topk(drafted.probabilities, 1))
            if layer < self._num_layers - 1:
                tokens = map_hot(proposals[-1].topk_index, self._model, self._operations)[:, 0]
                window = self._grown(row, window, tokens, layer, pools) if grows else self._rotated(window, tokens)
        topk_p = np.concatenate([one.topk_values for one in proposals], axis=1)
        return topk_p, np.concatenate([one.topk_index for one in proposals], axis=1)

    def _grown(self, row: Array, window: Window, tokens: Array, layer: int, pools: Pools) -> Window:
        """Return the next layer's window, which begins one position earlier."""
        grown = self._operations.assign_new_state(
            input_ids=window.input_ids,
            positions=window.positions,
            out_cache_loc=window.out_cache_loc,
            hidden_states=window.hidden_states,
            extend_start_loc=window.starts,
            extend_seq_lens=window.lengths,
            next_tokens=tokens,
            num_padding=window.padding,
            req_pool_indices=row,
            req_to_token=pools.req_to_token,
            forward_seq_lens=window.ends,
            hidden_states_pool=self._pool,
            draft_layer=layer,
        )
        return Window(*grown, window.padding, window.ends)

    def _rotated(self, window: Window, tokens: Array) -> Window:
        """Return the next layer's window on the same positions, a token further."""
        input_ids = window.input_ids.copy()
        self._operations.rotate_input_ids(input_ids, window.starts, window.lengths, tokens)
        return replace(window, input_ids=input_ids)

    def _keep(self, row: Array, window: Window, counts: Array) -> None:
        """Append the hidden states of what is committed to those that wait."""
        committed = counts.astype(np.int32)
        self._operations.assign_hidden_states_pool(window.hidden_states, window.starts, committed, row, self._pool)
