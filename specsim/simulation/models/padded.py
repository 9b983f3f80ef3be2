"""A model whose forwards run on padded batches: to the next bucket, or to what all ranks agree on.

It is a model like any other, so that any worker of a draft with KV of its own can run on it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from specsim.phases import ForwardBatch, ForwardMode, ForwardOutput, pad_inputs_to_size, post_forward_mlp_sync_batch
from specsim.phases.form import Zeros, numpy_zeros
from specsim.phases.padding import Pad, numpy_pad
from specsim.simulation.models.agreement import Agree, Agreement, ForwardKind, to_buckets
from specsim.simulation.models.batches import (
    DraftExtendBatch,
    DraftOutput,
    DraftStepBatch,
    ListedKeys,
    PagedKeys,
    TargetBatch,
    TargetOutput,
    WindowKeys,
)
from specsim.simulation.models.description import ModelDescription, Side
from specsim.simulation.models.kv_pool import KVPool
from specsim.simulation.models.nobody import Nobody
from specsim.simulation.models.protocol import Model

ArrayT = TypeVar("ArrayT")
Buffers = Mapping[str, Sequence[Any]]
Look = Callable[[Any], object]
"""Sees the token ids of a padded forward before it runs."""


class PaddedModel(Generic[ArrayT]):
    """Another model, run on rows that read and write the dump behind those of live requests.

    Parameters
    ----------
    model : Model
        Whose forwards run.
    extend_width : int
        Rows that a request has, or may have, in a draft-extend behind a verify.
    agree : callable
        Decides how many rows a forward is padded to: the next bucket, unless it says otherwise.
    pad, zeros : callable
        Make a longer array, and one of zeros; NumPy's by default.

    Notes
    -----
    Source: semantics D.9, D.10, J.3.
    """

    def __init__(
        self,
        model: Model[ArrayT],
        extend_width: int,
        agree: Agree | None = None,
        pad: Pad | None = None,
        zeros: Zeros | None = None,
    ) -> None:
        self.inner = model
        self.forwards: Counter[ForwardKind] = Counter()
        self.agree = agree or to_buckets
        self.look: Look | None = None
        self._nobody = Nobody(model.description, zeros or numpy_zeros)
        self._extend_width = extend_width
        self._pad = pad or numpy_pad
        self._is_behind_prompts = False

    @property
    def description(self) -> ModelDescription:
        """What the other model says of itself."""
        return self.inner.description

    def prefill(self, batch: TargetBatch[ArrayT], kv: Buffers, states: Buffers) -> TargetOutput[ArrayT]:
        """Run chunks of prompts; rows behind them are dummy rows of one token each."""
        self._is_behind_prompts = True
        return self._prefill(batch, kv, states, self._agreed(ForwardKind.TARGET_PREFILL, batch, None))

    def _prefill(
        self, batch: TargetBatch[ArrayT], kv: Buffers, states: Buffers, agreed: Agreement
    ) -> TargetOutput[ArrayT]:
        before, padded = self._enter(ForwardKind.TARGET_PREFILL, ForwardMode.EXTEND, batch, agreed)
        extra = padded.num_tokens - before.num_tokens
        keys = self._with_rows(batch.keys, extra, 1, 0)
        longer = replace(
            self._target_batch(batch, padded, keys, extra),
            req_pool_indices=self._pad(batch.req_pool_indices, 0, extra, 0),
            prefix_lens=self._pad(batch.prefix_lens, 0, extra, 0),
        )
        output = self.inner.prefill(longer, _opened(kv, padded), states)
        return _target_output(padded, before, output)

    def verify(
        self, batch: TargetBatch[ArrayT], kv: Buffers, states: Buffers, scratch: Buffers
    ) -> TargetOutput[ArrayT]:
        """Run trees; those of padding are rows of the dump behind a prefix of one."""
        self._is_behind_prompts = False
        return self._verify(batch, kv, states, scratch, self._agreed(ForwardKind.VERIFY, batch, _width_of(batch)))

    def _verify(
        self, batch: TargetBatch[ArrayT], kv: Buffers, states: Buffers, scratch: Buffers, agreed: Agreement
    ) -> TargetOutput[ArrayT]:
        before, padded = self._enter(ForwardKind.VERIFY, ForwardMode.TARGET_VERIFY, batch, agreed)
        width, extra = agreed.width or 0, padded.num_requests - before.num_requests
        keys = self._with_rows(batch.keys, extra, width, 1)
        longer = replace(
            self._target_batch(batch, padded, keys, extra),
            req_pool_indices=padded.req_pool_indices,
            prefix_lens=padded.seq_lens,
            tree_mask=None if batch.tree_mask is None else self._pad(batch.tree_mask, 0, extra * width**2, True),
            parents=None if batch.parents is None else self._pad(batch.parents, 0, extra, -1),
        )
        room = {name: [self._pad(layer, 0, extra, 0) for layer in layers] for name, layers in scratch.items()}
        output = self.inner.verify(longer, _opened(kv, padded), states, room)
        for name, layers in scratch.items():
            for layer, written in zip(layers, room[name], strict=True):
                layer[...] = written[: before.num_requests]
        return _target_output(padded, before, output)

    def draft_step(self, batch: DraftStepBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run one token a beam; beams of padding see nothing."""
        return self._draft_step(batch, kv, self._agreed(ForwardKind.DRAFT_STEP, batch, _width_of(batch)))

    def _draft_step(self, batch: DraftStepBatch[ArrayT], kv: Buffers, agreed: Agreement) -> DraftOutput[ArrayT]:
        before, padded = self._enter(ForwardKind.DRAFT_STEP, ForwardMode.DECODE, batch, agreed)
        keys: Any = batch.keys
        indptr = self._pad(keys.kv_indptr, 0, padded.num_tokens - before.num_tokens, 0)
        indptr[len(keys.kv_indptr) :] = keys.kv_indptr[-1]
        longer = replace(
            batch,
            req_pool_indices=padded.req_pool_indices,
            input_ids=padded.input_ids,
            positions=padded.positions,
            out_cache_loc=padded.out_cache_loc,
            hidden_states=padded.hidden_states,
            keys=ListedKeys(keys.kv_indices, indptr, keys.max_num_keys),
        )
        return _draft_output(padded, before, self.inner.draft_step(longer, _opened(kv, padded)))

    def draft_extend(self, batch: DraftExtendBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run the tokens with which the draft catches up; of each request of padding a row is selected, too."""
        kind = ForwardKind.DRAFT_PREFILL if self._is_behind_prompts else ForwardKind.DRAFT_EXTEND
        return self._draft_extend(kind, batch, kv, self._agreed(kind, batch, self._width_in(kind)))

    def _draft_extend(
        self, kind: ForwardKind, batch: DraftExtendBatch[ArrayT], kv: Buffers, agreed: Agreement
    ) -> DraftOutput[ArrayT]:
        mode = ForwardMode.EXTEND if kind.is_prefill else ForwardMode.DRAFT_EXTEND
        before, padded = self._enter(kind, mode, batch, agreed)
        more = padded.num_requests - before.num_requests
        select = self._pad(batch.select, 0, more, 0)
        for place in range(more):
            select[before.num_requests + place] = before.num_tokens + place
        extra = padded.num_tokens - before.num_tokens
        longer = replace(
            batch,
            req_pool_indices=self._pad(batch.req_pool_indices, 0, extra, 0),
            input_ids=padded.input_ids,
            positions=padded.positions,
            out_cache_loc=padded.out_cache_loc,
            hidden_states=padded.hidden_states,
            keys=self._with_rows(batch.keys, extra, 1, 0),
            select=select,
        )
        return _draft_output(padded, before, self.inner.draft_extend(longer, _opened(kv, padded)))

    def run_padding(self, kind: ForwardKind, num_tokens: int, num_tokens_per_req: int | None) -> None:
        """Run a forward of a kind for nobody, on so many rows of padding and pools that hold the dump alone."""
        agreed, nobody = Agreement(num_tokens, num_tokens_per_req), self._nobody
        match kind:
            case ForwardKind.TARGET_PREFILL:
                self._prefill(nobody.prompts(), nobody.dump(Side.TARGET), nobody.states(1), agreed)
            case ForwardKind.VERIFY:
                width, kv = num_tokens_per_req or 0, nobody.dump(Side.TARGET)
                self._verify(nobody.trees(width), kv, nobody.states(1), nobody.states(0, width), agreed)
            case ForwardKind.DRAFT_STEP:
                self._draft_step(nobody.beams(), nobody.dump(Side.DRAFT), agreed)
            case _:
                self._draft_extend(kind, nobody.extend(), nobody.dump(Side.DRAFT), agreed)

    def _width_in(self, kind: ForwardKind) -> int | None:
        return None if kind.is_prefill else self._extend_width

    def _agreed(self, kind: ForwardKind, batch: Any, width: int | None) -> Agreement:
        return self.agree(kind, len(batch.req_pool_indices), len(batch.input_ids), width)

    def _enter(
        self, kind: ForwardKind, mode: ForwardMode, batch: Any, agreed: Agreement
    ) -> tuple[ForwardBatch, ForwardBatch]:
        """Return what is put back behind a forward, and what it reads."""
        self.forwards[kind] += 1
        is_target = kind in (ForwardKind.TARGET_PREFILL, ForwardKind.VERIFY)
        lengths = batch.prefix_lens if is_target else batch.req_pool_indices
        before = ForwardBatch(
            mode,
            input_ids=batch.input_ids,
            req_pool_indices=batch.req_pool_indices,
            seq_lens=lengths,
            positions=batch.positions,
            out_cache_loc=batch.out_cache_loc,
            swa_out_cache_loc=batch.window_keys.out_cache_loc if is_target and batch.window_keys else None,
            hidden_states=None if is_target else batch.hidden_states,
            num_tokens_per_req=agreed.width,
            captures_every_row=kind is ForwardKind.TARGET_PREFILL,
        )
        padded = pad_inputs_to_size(before, agreed.num_tokens, pad=self._pad)
        if self.look is not None:
            self.look(padded.input_ids)
        return before, padded

    def _target_batch(
        self, batch: TargetBatch[ArrayT], padded: ForwardBatch, keys: PagedKeys[ArrayT], extra: int
    ) -> TargetBatch[ArrayT]:
        window = batch.window_keys
        if window is not None:
            table = self._table(window.page_table, extra, keys.page_table)
            window = WindowKeys(window.kv, padded.swa_out_cache_loc, table, window.window)
        return replace(
            batch,
            input_ids=padded.input_ids,
            positions=padded.positions,
            out_cache_loc=padded.out_cache_loc,
            keys=keys,
            window_keys=window,
        )

    def _with_rows(self, keys: Any, count: int, width: int, prefix: int) -> PagedKeys[Any]:
        """Return keys with so many rows more, each of so many new tokens behind a prefix, all of it in the dump."""
        if not count:
            return PagedKeys(keys.page_table, keys.cache_seqlens, keys.cu_seqlens_q, keys.page_size)
        num_pages = -(-(prefix + width) // keys.page_size)
        table = self._pad(keys.page_table, 1, max(0, num_pages - keys.page_table.shape[1]), 0)
        starts = self._pad(keys.cu_seqlens_q, 0, count, 0)
        num_live = len(keys.cache_seqlens)
        for row in range(num_live, num_live + count):
            starts[row + 1] = starts[row] + width
        return PagedKeys(
            self._pad(table, 0, count, 0),
            self._pad(keys.cache_seqlens, 0, count, prefix + width),
            starts,
            keys.page_size,
        )

    def _table(self, table: Any, extra: int, like: Any) -> Any:
        """Return a table of SWA slots with the rows and columns of the table of full ones."""
        return self._pad(self._pad(table, 1, like.shape[1] - table.shape[1], 0), 0, extra, 0)


def _width_of(batch: Any) -> int:
    """Return the rows of each request; 0 where there is none, for somebody else to say."""
    return len(batch.input_ids) // max(len(batch.req_pool_indices), 1)


def _opened(kv: Buffers, padded: ForwardBatch) -> Buffers:
    """Return buffers that know that the dump is written, too, where they know who writes them."""
    return kv.open(padded.out_cache_loc) if isinstance(kv, KVPool) else kv


def _target_output(padded: ForwardBatch, before: ForwardBatch, output: TargetOutput[Any]) -> TargetOutput[Any]:
    _, kept = post_forward_mlp_sync_batch(padded, before, ForwardOutput(output.logits, output.hidden_states))
    _, sampling = post_forward_mlp_sync_batch(padded, before, ForwardOutput(output.sampling_logits, None))
    return TargetOutput(kept.logits, kept.hidden_states, sampling.logits)


def _draft_output(padded: ForwardBatch, before: ForwardBatch, output: DraftOutput[Any]) -> DraftOutput[Any]:
    _, kept = post_forward_mlp_sync_batch(padded, before, ForwardOutput(output.probabilities, output.hidden_states))
    return DraftOutput(kept.logits, kept.hidden_states)
