"""The draft side with one small layer a step: windows that grow from layer to layer, and drafts without a forward."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.phases import Batch, DraftExtendInput, DraftInput, PhaseTag, VerifyInput, VerifyOutput, expect_phase
from specsim.simulation.draft_sides.extended import ExtendedSide, installed
from specsim.simulation.draft_sides.layer import AnyPools
from specsim.simulation.draft_sides.trees import VerifySlots, chain_of, roots
from specsim.simulation.models.batches import DraftExtendBatch, PagedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.layered import LayeredModel, require_layered
from specsim.simulation.sides import Setting, SideFacts


@dataclass(frozen=True)
class Window:
    """What a layer consumes: arrays [token], and [request] where the tokens of each request start and how many it has.

    ``padding`` [request] counts the tokens after the one that proposes, ``ends`` [request] the positions up to here.
    """

    input_ids: Any
    positions: Any
    out_cache_loc: Any
    hidden_states: Any
    starts: Any
    lengths: Any
    padding: Any
    ends: Any

    @property
    def select(self) -> Any:
        """The row of each request that proposes."""
        return self.starts + self.lengths - 1 - self.padding


class LayeredSide(ExtendedSide):
    """A layer a step, each with a window of its own; drafts are chains with as many steps as there are layers.

    Other ranks wait for as many forwards whatever a batch is. Decode runs on shapes that the host knows, so that it can
    be captured.

    Notes
    -----
    Source: semantics E.4.
    """

    def __init__(self, setting: Setting) -> None:
        config, num_rows = setting.drafting, setting.sizes.num_rows
        description = require_layered(setting.model, config, setting.arrays.KIND)
        super().__init__(setting, SideFacts(description, config.num_steps, borrows=False))
        self._num_layers = config.num_steps
        self._model: LayeredModel[Any] = setting.model
        width = len(description.hidden_layers) * description.hidden_width
        self._pool = self._arrays.zeros((num_rows, self._num_layers - 1, width), description.hidden_dtype)
        self._firsts = self._arrays.zeros((num_rows,), "int64")
        self._firsts_on_host = [0] * num_rows
        self._joining: set[int] = set()

    def join(self, rows: Sequence[int]) -> None:
        """Take note that the next chunk of these rows begins a request."""
        self._joining |= set(rows)

    def prefill(self, after: Any, pools: AnyPools) -> DraftInput:
        """Run every layer over the chunks, each a token further; one that goes on repairs what was proposed before it.

        A chunk that begins its request has nothing in front that it could grow by.
        """
        arrays, firsts = self._arrays, self._firsts_on_host
        starts = {row: chunk.start for row, chunk in zip(after.rows, after.chunks, strict=True)}
        begun = {row: start for row, start in starts.items() if row in self._joining or start == 0}
        for row, start in begun.items():
            firsts[row] = start
        self._joining -= set(starts)
        if begun:
            begun_rows = arrays.asarray(list(begun))
            self._firsts[begun_rows] = arrays.asarray(list(begun.values()))
            self._pool[begun_rows] = 0
        goes_on = any(start > firsts[row] for row, start in starts.items())
        lengths = arrays.astype(after.lengths, "int32")
        window = Window(
            input_ids=self._operations.rotate_prefill_input_ids(after.input_ids, after.lengths, after.following),
            positions=after.positions,
            out_cache_loc=after.out_cache_loc,
            hidden_states=require_present("hidden_states", after.output.hidden_states),
            starts=after.keys.cu_seqlens_q[:-1],
            lengths=lengths,
            padding=arrays.zeros((len(starts),), "int32"),
            ends=arrays.astype(after.ends, "int64"),
        )
        bonus_tokens = arrays.astype(after.following, "int32")
        return self._follow(after.row, window, after.keys, goes_on, lengths, window.ends, bonus_tokens, pools)

    def draft(self, start: DraftInput, config: SpecConfig, pools: AnyPools, verify_slots: VerifySlots) -> VerifyInput:
        """Make a chain of the first candidates; no forward runs."""
        del pools
        expect_phase(start, PhaseTag.EAGLE_DRAFT)
        if config.num_steps == 0:
            return roots(start, verify_slots(), self._arrays)
        candidates = self._map_hot(start.topk_index)
        token_list = [candidates[:, step : step + 1] for step in range(config.num_steps)]
        return chain_of(start, config, token_list, verify_slots, self._operations)

    def extend(
        self,
        row: Any,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        seq_lens: Any,
        pools: AnyPools,
    ) -> DraftInput:
        """Run layer s over the nodes and the s positions in front of them."""
        expect_phase(phase, PhaseTag.EAGLE_DRAFT_EXTEND_V2)
        arrays, counts, width = self._arrays, phase.num_accepted_tokens, phase.num_draft_tokens
        window = Window(
            input_ids=phase.input_ids,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            hidden_states=require_present("hidden_states", phase.hidden_states),
            starts=arrays.astype(arrays.arange(len(row)) * width, "int32"),
            lengths=arrays.full((len(row),), width, "int32"),
            padding=arrays.astype(width - counts, "int32"),
            ends=phase.forward_seq_lens,
        )
        keys = pools.keys_of_extend(row, verify_input, phase, self._operations)
        return self._follow(row, window, keys, True, counts, seq_lens, verify_output.bonus_tokens, pools)

    def extend_ragged(self, batch: Batch, pools: AnyPools) -> DraftInput:
        """Run layer s over the accepted tokens and the s positions in front of them."""
        phase = installed(batch, PhaseTag.EAGLE_DRAFT_EXTEND)
        keys, row, counts = (
            pools.ragged_keys(phase, self._operations),
            phase.req_pool_indices,
            phase.num_accepted_tokens,
        )
        window = Window(
            input_ids=phase.input_ids,
            positions=require_present("positions", phase.positions),
            out_cache_loc=phase.out_cache_loc,
            hidden_states=require_present("hidden_states", phase.hidden_states),
            starts=keys.cu_seqlens_q[:-1],
            lengths=counts,
            padding=self._arrays.zeros((len(row),), "int32"),
            ends=phase.seq_lens,
        )
        bonus_tokens = require_present("bonus_tokens", phase.bonus_tokens)
        return self._follow(row, window, keys, True, counts, phase.seq_lens, bonus_tokens, pools)

    def state(self) -> dict[str, Any]:
        """Return the hidden states that wait, by row."""
        return {"hidden_states_pool": self._arrays.to_numpy(self._pool)}

    def _follow(
        self,
        row: Any,
        window: Window,
        keys: PagedKeys[Any],
        grows: bool,
        counts: Any,
        seq_lens: Any,
        bonus_tokens: Any,
        pools: AnyPools,
    ) -> DraftInput:
        """Run all layers, keep the hidden states of what is committed, and return what starts the next drafts."""
        topk_p, topk_index = self._run(row, window, keys, grows, pools)
        self._keep(row, window, counts)
        return DraftInput(row, seq_lens, topk_p, topk_index, None, bonus_tokens)

    def _run(self, row: Any, window: Window, keys: PagedKeys[Any], grows: bool, pools: AnyPools) -> tuple[Any, Any]:
        """Run all layers and return what each proposes, float32 and int64 [request, layer]."""
        arrays, proposals = self._arrays, []
        firsts = arrays.take(self._firsts, row)
        for layer in range(self._num_layers):
            num_tokens = len(window.positions)
            # NOTE: what is in front of a request's own positions is shared, and stays as it is.
            own = arrays.take(firsts, arrays.owners_of(window.starts, num_tokens))
            slots = arrays.where(window.positions < own, 0, window.out_cache_loc)
            starts = arrays.concat([window.starts, arrays.full((1,), num_tokens, "int32")])
            batch = DraftExtendBatch(
                req_pool_indices=row,
                input_ids=window.input_ids,
                positions=window.positions,
                out_cache_loc=slots,
                keys=PagedKeys(keys.page_table, arrays.astype(window.ends, "int32"), starts, keys.page_size),
                hidden_states=window.hidden_states,
                select=arrays.astype(window.select, "int64"),
            )
            drafted = self._model.draft_layer(layer, batch, pools.open(Side.DRAFT, slots))
            proposals.append(self._operations.fast_topk(drafted.probabilities, 1))
            if layer < self._num_layers - 1:
                tokens = self._map_hot(proposals[-1].topk_index)[:, 0]
                window = self._grown(row, window, tokens, layer, pools) if grows else self._rotated(window, tokens)
        topk_p = arrays.concat([one.topk_values for one in proposals], axis=1)
        return topk_p, arrays.concat([one.topk_index for one in proposals], axis=1)

    def _grown(self, row: Any, window: Window, tokens: Any, layer: int, pools: AnyPools) -> Window:
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

    def _rotated(self, window: Window, tokens: Any) -> Window:
        """Return the next layer's window on the same positions, a token further."""
        input_ids = self._arrays.copy(window.input_ids)
        self._operations.rotate_input_ids(input_ids, window.starts, window.lengths, tokens)
        return replace(window, input_ids=input_ids)

    def _keep(self, row: Any, window: Window, counts: Any) -> None:
        """Append the hidden states of what is committed to those that wait."""
        committed = self._arrays.astype(counts, "int32")
        self._operations.assign_hidden_states_pool(window.hidden_states, window.starts, committed, row, self._pool)
