"""The draft side with one small layer a step, on the device: growing windows, and drafts without a forward.

Decode runs on shapes that the host knows and can be captured; a prefill reads on the host which chunks begin a request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE, to_numpy
from specsim.gpu.worker.carried import device_zeros
from specsim.gpu.worker.draft import chain_of, map_hot, roots
from specsim.gpu.worker.extend import ragged_keys
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import TargetPrefill, device_array
from specsim.gpu.worker.sides.extended import ExtendedSide
from specsim.phases import DraftExtendInput, DraftInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.simulation.models.batches import DraftExtendBatch, PagedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.layered import LayeredModel, require_layered
from specsim.simulation.sides import Setting, SideFacts


@dataclass(frozen=True)
class Window:
    """What a layer consumes, as in the reference; ``owner`` [token] is the request of each token."""

    input_ids: Tensor
    positions: Tensor
    out_cache_loc: Tensor
    hidden_states: Tensor
    starts: Tensor
    lengths: Tensor
    padding: Tensor
    ends: Tensor
    owner: Tensor

    @property
    def select(self) -> Tensor:
        """The row of each request that proposes."""
        return (self.starts + self.lengths - 1 - self.padding).long()


class LayeredSide(ExtendedSide):
    """A layer a step, each with a window of its own; drafts are chains with as many steps as there are layers.

    Other ranks wait for as many forwards whatever a batch is (semantics E.4).
    """

    def __init__(self, setting: Setting) -> None:
        config, sizes = setting.drafting, setting.sizes
        description = require_layered(setting.model, config, "torch")
        super().__init__(setting, SideFacts(description, config.num_steps, borrows=False))
        self._num_layers = config.num_steps
        self._model: LayeredModel[Tensor] = setting.model
        shape = sizes.num_rows, self._num_layers - 1, len(description.hidden_layers) * description.hidden_width
        self._pool = device_zeros(shape, description.hidden_dtype)
        self._firsts = device_zeros((sizes.num_rows,), "int64")
        self._firsts_on_host = [0] * sizes.num_rows
        self._joining: set[int] = set()

    def join(self, rows: Sequence[int]) -> None:
        """Take note that the next chunk of these rows begins a request."""
        self._joining |= set(rows)

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Run every layer over the chunks, each a token further; where one goes on, windows grow to what it repairs."""
        rows, starts = after.rows, [chunk.start for chunk in after.chunks]
        begun = [place for place, row in enumerate(rows) if row in self._joining or starts[place] == 0]
        for place in begun:
            self._firsts_on_host[rows[place]] = starts[place]
        self._joining -= set(rows)
        if begun:
            begun_rows = device_array([rows[place] for place in begun], DEVICE)
            self._firsts.index_copy_(0, begun_rows, device_array([starts[place] for place in begun], DEVICE))
            self._pool.index_fill_(0, begun_rows, 0)
        goes_on = any(start > self._firsts_on_host[row] for row, start in zip(rows, starts, strict=True))
        lengths = after.lengths
        window = Window(
            input_ids=gpu.rotate_prefill_input_ids(after.input_ids, lengths, after.following),
            positions=after.positions,
            out_cache_loc=after.out_cache_loc,
            hidden_states=require_present("hidden_states", after.output.hidden_states),
            starts=after.keys.cu_seqlens_q[:-1],
            lengths=lengths,
            padding=torch.zeros_like(lengths),
            ends=after.ends,
            owner=torch.arange(len(rows), device=DEVICE).repeat_interleave(lengths),
        )
        table, bonus_tokens = after.keys.page_table, after.following.int()
        return self._follow(after.row, window, table, goes_on, lengths, after.ends, bonus_tokens, pools)

    def draft(
        self, start: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Tensor]
    ) -> VerifyInput:
        """Make a chain of the first candidates; no forward runs."""
        if config.num_steps == 0:
            return roots(start, verify_slots())
        candidates = map_hot(start.topk_index, self._hot_token_id)
        token_list = [candidates[:, step : step + 1] for step in range(config.num_steps)]
        return chain_of(start, token_list, config, verify_slots)

    def extend(
        self,
        row: Tensor,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
    ) -> DraftInput:
        """Run layer s over the nodes and the s positions in front of them."""
        width, number = phase.num_draft_tokens, torch.arange(row.shape[0], device=DEVICE)
        counts = phase.num_accepted_tokens
        lengths = torch.full_like(counts, width)
        window = Window(
            input_ids=phase.input_ids,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            hidden_states=require_present("hidden_states", phase.hidden_states),
            starts=(number * width).int(),
            lengths=lengths,
            padding=lengths - counts,
            ends=phase.forward_seq_lens,
            owner=torch.arange(row.shape[0] * width, device=DEVICE) // width,
        )
        table = require_present("keys of the verify", pools.verify_keys).page_table
        seq_lens, bonus_tokens = verify_input.seq_lens + counts, verify_output.bonus_tokens
        return self._follow(row, window, table, True, counts, seq_lens, bonus_tokens, pools)

    def extend_ragged(self, phase: EagleDraftExtendInput, pools: Pools) -> DraftInput:
        """Run layer s over the accepted tokens and the s positions in front of them."""
        keys, counts = ragged_keys(phase, pools), phase.num_accepted_tokens
        on_host = phase.num_accepted_tokens_cpu
        owner = [request for request, count in enumerate(on_host) for _ in range(count)]
        window = Window(
            input_ids=phase.input_ids,
            positions=require_present("positions", phase.positions),
            out_cache_loc=phase.out_cache_loc,
            hidden_states=require_present("hidden_states", phase.hidden_states),
            starts=keys.cu_seqlens_q[:-1],
            lengths=counts,
            padding=torch.zeros_like(counts),
            ends=phase.seq_lens,
            owner=device_array(owner, DEVICE),
        )
        row, seq_lens = phase.req_pool_indices, phase.seq_lens
        bonus_tokens = require_present("bonus_tokens", phase.bonus_tokens)
        return self._follow(row, window, keys.page_table, True, counts, seq_lens, bonus_tokens, pools)

    def state(self) -> dict[str, Any]:
        """Return the hidden states that wait, by row."""
        return {"hidden_states_pool": to_numpy(self._pool)}

    def _follow(
        self,
        row: Tensor,
        window: Window,
        page_table: Tensor,
        grows: bool,
        counts: Tensor,
        seq_lens: Tensor,
        bonus_tokens: Tensor,
        pools: Pools,
    ) -> DraftInput:
        """Run all layers, keep the hidden states of what is committed, and return what starts the next drafts."""
        topk_p, topk_index = self._run(row, window, page_table, grows, pools)
        gpu.assign_hidden_states_pool(window.hidden_states, window.starts, counts, row, self._pool)
        return DraftInput(row, seq_lens, topk_p, topk_index, None, bonus_tokens)

    def _run(
        self, rows: Tensor, window: Window, page_table: Tensor, grows: bool, pools: Pools
    ) -> tuple[Tensor, Tensor]:
        """Run all layers and return what each proposes, float32 and int64 [request, layer]."""
        firsts, proposals = self._firsts.index_select(0, rows), []
        for layer in range(self._num_layers):
            # NOTE: what is in front of a request's own positions is shared, and stays as it is.
            is_shared = window.positions < firsts.index_select(0, window.owner)
            starts = torch.cat([window.starts, window.starts.new_full((1,), window.positions.shape[0])])
            batch = DraftExtendBatch(
                req_pool_indices=rows,
                input_ids=window.input_ids,
                positions=window.positions,
                out_cache_loc=window.out_cache_loc.masked_fill(is_shared, 0),
                keys=PagedKeys(page_table, window.ends.int(), starts, 1),
                hidden_states=window.hidden_states,
                select=window.select,
            )
            drafted = self._model.draft_layer(layer, batch, pools.kv[Side.DRAFT])
            proposals.append(gpu.fast_topk(drafted.probabilities, 1))
            if layer < self._num_layers - 1:
                tokens = map_hot(proposals[-1][1], self._hot_token_id)[:, 0]
                window = self._grown(rows, window, tokens, layer, pools) if grows else _rotated(window, tokens)
        return torch.cat([one[0] for one in proposals], dim=1), torch.cat([one[1] for one in proposals], dim=1)

    def _grown(self, rows: Tensor, window: Window, tokens: Tensor, layer: int, pools: Pools) -> Window:
        """Return the next layer's window, which begins one position earlier."""
        grown = gpu.assign_new_state(
            window.input_ids,
            window.positions,
            window.out_cache_loc,
            window.hidden_states,
            window.starts,
            window.lengths,
            tokens,
            window.padding,
            rows,
            pools.req_to_token,
            window.ends,
            self._pool,
            layer,
        )
        first = grown.next_extend_start_loc
        place = torch.arange(grown.next_positions.shape[0], device=DEVICE, dtype=first.dtype)
        owner = torch.searchsorted(first, place, right=True) - 1
        return Window(*grown, window.padding, window.ends, owner)


def _rotated(window: Window, tokens: Tensor) -> Window:
    """Return the next layer's window on the same positions, a token further."""
    input_ids = window.input_ids.clone()
    gpu.rotate_input_ids(input_ids, window.starts, window.lengths, tokens)
    return replace(window, input_ids=input_ids)
