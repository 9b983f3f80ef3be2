"""A model whose forwards run on padded batches: to the next bucket, or to what all ranks agree on.

It is a model like any other, so that any worker can run on it, whatever the draft is.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from specsim.assertion import require_kind
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
from specsim.simulation.models.block import BlockBatch, BlockModel, FeatureBatch
from specsim.simulation.models.description import Side
from specsim.simulation.models.frozen import FrozenDraftBatch, FrozenKVModel, shared_kv
from specsim.simulation.models.idle import IdleBatches
from specsim.simulation.models.kv_pool import KVPool
from specsim.simulation.models.layered import LayeredModel
from specsim.simulation.models.protocol import Model

ArrayT = TypeVar("ArrayT")
BatchT = TypeVar("BatchT")
Buffers = Mapping[str, Sequence[Any]]
Look = Callable[[Any], object]
"""Sees the token ids, or what has a row a token, of a padded forward before it runs."""


class PaddedModel(Generic[ArrayT]):
    """Another model, run on rows that read and write the dump after those of live requests.

    It has the forwards of every kind of draft; those that the other model lacks fail when they are asked for.

    Parameters
    ----------
    model : Model
        Whose forwards run.
    extend_width : int
        Rows that a request has, or may have, in a draft-extend after a verify.
    agree : callable
        Decides how many rows a forward is padded to: the next bucket, unless it says otherwise.
    pad, zeros : callable
        Make a longer array, and one of zeros; NumPy's by default.
    frozen_width : int
        Beams of a request in a draft over the target's KV.

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
        frozen_width: int = 1,
    ) -> None:
        self.inner = model
        self.forwards: Counter[ForwardKind] = Counter()
        self.agree: Agree = agree or to_buckets
        self.look: Look | None = None
        # NOTE: each forward is agreed on by the host, which a captured one would not ask again.
        self.description = replace(model.description, is_capturable=False)
        self._idle = IdleBatches(model.description, zeros or numpy_zeros)
        self._extend_width = extend_width
        self._frozen_width = frozen_width
        self._pad = pad or numpy_pad
        self._is_after_prompts = False

    def prefill(self, batch: TargetBatch[ArrayT], kv: Buffers, states: Buffers) -> TargetOutput[ArrayT]:
        """Run chunks of prompts; rows after them are dummy rows of one token each."""
        self._is_after_prompts = True
        return self._prefill(batch, kv, states, self._agreed(ForwardKind.TARGET_PREFILL, batch, None))

    def _prefill(
        self, batch: TargetBatch[ArrayT], kv: Buffers, states: Buffers, agreed: Agreement
    ) -> TargetOutput[ArrayT]:
        before, padded = self._enter(ForwardKind.TARGET_PREFILL, batch, agreed)
        extra = padded.num_tokens - before.num_tokens
        longer = self._longer_target(
            batch,
            padded,
            extra,
            self._with_rows(batch.keys, extra, 1, 0),
            req_pool_indices=self._pad(batch.req_pool_indices, 0, extra, 0),
            prefix_lens=self._pad(batch.prefix_lens, 0, extra, 0),
        )
        return live_target_output(padded, before, self.inner.prefill(longer, opened(kv, padded), states))

    def verify(
        self, batch: TargetBatch[ArrayT], kv: Buffers, states: Buffers, scratch: Buffers
    ) -> TargetOutput[ArrayT]:
        """Run trees; those of padding are rows of the dump after a prefix of one."""
        self._is_after_prompts = False
        return self._verify(batch, kv, states, scratch, self._agreed(ForwardKind.VERIFY, batch, _width_of(batch)))

    def _verify(
        self, batch: TargetBatch[ArrayT], kv: Buffers, states: Buffers, scratch: Buffers, agreed: Agreement
    ) -> TargetOutput[ArrayT]:
        before, padded = self._enter(ForwardKind.VERIFY, batch, agreed)
        width, extra = agreed.width or 0, padded.num_requests - before.num_requests
        longer = self._longer_target(
            batch,
            padded,
            extra,
            self._with_rows(batch.keys, extra, width, 1),
            req_pool_indices=padded.req_pool_indices,
            prefix_lens=padded.seq_lens,
            tree_mask=None if batch.tree_mask is None else self._pad(batch.tree_mask, 0, extra * width**2, True),
            parents=None if batch.parents is None else self._pad(batch.parents, 0, extra, -1),
        )
        room = {name: [self._pad(layer, 0, extra, 0) for layer in layers] for name, layers in scratch.items()}
        output = self.inner.verify(longer, opened(kv, padded), states, room)
        for name, layers in scratch.items():
            for layer, written in zip(layers, room[name], strict=True):
                layer[...] = written[: before.num_requests]
        return live_target_output(padded, before, output)

    def draft_step(self, batch: DraftStepBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run one token a beam; beams of padding see nothing."""
        return self._draft_step(batch, kv, self._agreed(ForwardKind.DRAFT_STEP, batch, _width_of(batch)))

    def _draft_step(self, batch: DraftStepBatch[ArrayT], kv: Buffers, agreed: Agreement) -> DraftOutput[ArrayT]:
        before, padded = self._enter(ForwardKind.DRAFT_STEP, batch, agreed)
        keys = lists_with_rows(batch.keys, padded.num_tokens - before.num_tokens, self._pad)
        longer = on_rows_of(padded, batch, req_pool_indices=padded.req_pool_indices, keys=keys)
        return live_draft_output(padded, before, self.inner.draft_step(longer, opened(kv, padded)))

    def draft_extend(self, batch: DraftExtendBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run the tokens with which the draft catches up; rows of padding are requests of one token."""
        kind = ForwardKind.DRAFT_PREFILL if self._is_after_prompts else ForwardKind.DRAFT_EXTEND
        return self._draft_extend(kind, batch, kv, self._agreed(kind, batch, self._width_in(kind)))

    def _draft_extend(
        self, kind: ForwardKind, batch: DraftExtendBatch[ArrayT], kv: Buffers, agreed: Agreement
    ) -> DraftOutput[ArrayT]:
        before, padded, longer = self._longer_extend(kind, batch, agreed)
        return live_draft_output(padded, before, self.inner.draft_extend(longer, opened(kv, padded)))

    def draft_layer(self, layer: int, batch: DraftExtendBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run the window of a layer, in which a request has a row more than in that of the layer before."""
        kind = ForwardKind.LAYER_PREFILL if self._is_after_prompts else ForwardKind.LAYER_EXTEND
        agreed = self._agreed(kind, batch, self._width_in(kind, layer), layer)
        return self._draft_layer(kind, layer, batch, kv, agreed)

    def _draft_layer(
        self, kind: ForwardKind, layer: int, batch: DraftExtendBatch[ArrayT], kv: Buffers, agreed: Agreement
    ) -> DraftOutput[ArrayT]:
        model = self._having(LayeredModel)
        before, padded, longer = self._longer_extend(kind, batch, agreed)
        return live_draft_output(padded, before, model.draft_layer(layer, longer, opened(kv, padded)))

    def draft_frozen(self, batch: FrozenDraftBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run one token a beam over the target's KV; beams of padding see nothing."""
        width = self._frozen_width
        rows = _num_rows(batch.input_ids)
        return self._draft_frozen(batch, kv, self.agree(ForwardKind.FROZEN_STEP, rows // width, rows, width))

    def _draft_frozen(self, batch: FrozenDraftBatch[ArrayT], kv: Buffers, agreed: Agreement) -> DraftOutput[ArrayT]:
        model = self._having(FrozenKVModel)
        before, padded = self._enter(ForwardKind.FROZEN_STEP, batch, agreed)
        keys = lists_with_rows(batch.keys, padded.num_tokens - before.num_tokens, self._pad)
        longer = on_rows_of(padded, batch, keys=keys)
        return live_draft_output(padded, before, model.draft_frozen(longer, kv))

    def draft_block(self, batch: BlockBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run blocks; those of padding are rows of the dump after a prefix of one."""
        rows, width = _num_rows(batch.input_ids), batch.num_draft_tokens
        return self._draft_block(batch, kv, self.agree(ForwardKind.DRAFT_BLOCK, rows // width, rows, width))

    def _draft_block(self, batch: BlockBatch[ArrayT], kv: Buffers, agreed: Agreement) -> DraftOutput[ArrayT]:
        model = self._having(BlockModel)
        before, padded = self._enter(ForwardKind.DRAFT_BLOCK, batch, agreed)
        width, extra = agreed.width or 0, padded.num_requests - before.num_requests
        keys = self._with_rows(batch.keys, extra, width, 1)
        longer = on_rows_of(padded, batch, keys=keys, num_draft_tokens=width)
        output: Any = model.draft_block(longer, opened(kv, padded)).probabilities
        # NOTE: the root of a block proposes nothing, so that its rows are fewer than its tokens.
        return DraftOutput(output[: before.num_requests * (width - 1)], None)

    def project_features(self, batch: FeatureBatch[ArrayT], kv: Buffers) -> None:
        """Make KV of features, a row a position; that of rows of padding goes into the dump."""
        kind = ForwardKind.FEATURES_OF_PROMPTS if self._is_after_prompts else ForwardKind.FEATURES
        rows = _num_rows(batch.positions)
        self._project_features(kind, batch, kv, self.agree(kind, rows, rows, 1))

    def _project_features(self, kind: ForwardKind, batch: FeatureBatch[ArrayT], kv: Buffers, agreed: Agreement) -> None:
        model = self._having(BlockModel)
        _, padded = self._enter(kind, batch, agreed)
        features: ArrayT = padded.hidden_states
        model.project_features(FeatureBatch(padded.positions, padded.out_cache_loc, features), opened(kv, padded))

    def run_padding(self, kind: ForwardKind, num_tokens: int, num_tokens_per_req: int | None, layer: int = 0) -> None:
        """Run a forward of a kind for an idle batch, on so many rows of padding and pools that hold the dump alone."""
        agreed, idle, width = Agreement(num_tokens, num_tokens_per_req), self._idle, num_tokens_per_req or 0
        of_draft = idle.dump(Side.DRAFT)
        match kind:
            case ForwardKind.TARGET_PREFILL:
                self._prefill(idle.prompts(), idle.dump(Side.TARGET), idle.states(1), agreed)
            case ForwardKind.VERIFY:
                scratch = idle.states(0, width)
                self._verify(idle.trees(width), idle.dump(Side.TARGET), idle.states(1), scratch, agreed)
            case ForwardKind.DRAFT_STEP:
                self._draft_step(idle.beams(), of_draft, agreed)
            case ForwardKind.FROZEN_STEP:
                kv = shared_kv(self.description, idle.dump(Side.TARGET))
                self._draft_frozen(idle.frozen_beams(), kv, agreed)
            case ForwardKind.DRAFT_BLOCK:
                self._draft_block(idle.blocks(width), of_draft, agreed)
            case ForwardKind.FEATURES_OF_PROMPTS | ForwardKind.FEATURES:
                self._project_features(kind, idle.features(), of_draft, agreed)
            case ForwardKind.LAYER_PREFILL | ForwardKind.LAYER_EXTEND:
                self._draft_layer(kind, layer, idle.extend(), of_draft, agreed)
            case _:
                self._draft_extend(kind, idle.extend(), of_draft, agreed)

    def _longer_target(
        self, batch: TargetBatch[Any], padded: ForwardBatch, extra: int, keys: PagedKeys[Any], **others: Any
    ) -> TargetBatch[Any]:
        """Return a batch of the target on the rows of a padded one; ``keys`` have ``extra`` rows more."""
        window = batch.window_keys
        if window is not None:
            # NOTE: a table of SWA slots has the rows and columns of the table of full ones.
            table = self._pad(window.page_table, 1, keys.page_table.shape[1] - window.page_table.shape[1], 0)
            window = WindowKeys(window.kv, padded.swa_out_cache_loc, self._pad(table, 0, extra, 0), window.window)
        return on_rows_of(padded, batch, keys=keys, window_keys=window, **others)

    def _longer_extend(
        self, kind: ForwardKind, batch: DraftExtendBatch[Any], agreed: Agreement
    ) -> tuple[ForwardBatch, ForwardBatch, DraftExtendBatch[Any]]:
        """Return an extend on more rows; each row of padding is a request of its own, and is selected."""
        before, padded = self._enter(kind, batch, agreed)
        num_live, extra = len(batch.select), padded.num_tokens - before.num_tokens
        keys, select = self._with_rows(batch.keys, extra, 1, 0), self._pad(batch.select, 0, extra, 0)
        for place in range(extra):
            select[num_live + place] = before.num_tokens + place
        requests = self._pad(batch.req_pool_indices, 0, extra, 0)
        return before, padded, on_rows_of(padded, batch, req_pool_indices=requests, keys=keys, select=select)

    def _having(self, kind: Any) -> Any:
        """Return the other model, which has the forwards of a kind of draft."""
        return require_kind("the padded model", self.inner, kind)

    def _width_in(self, kind: ForwardKind, layer: int = 0) -> int | None:
        return None if kind.is_prefill else self._extend_width + layer

    def _agreed(self, kind: ForwardKind, batch: Any, width: int | None, layer: int = 0) -> Agreement:
        return self.agree(kind, len(batch.req_pool_indices), len(batch.input_ids), width, layer)

    def _enter(self, kind: ForwardKind, batch: Any, agreed: Agreement) -> tuple[ForwardBatch, ForwardBatch]:
        """Return what is put back after a forward, and what it reads."""
        self.forwards[kind] += 1
        before = forward_of(batch, agreed.width)
        padded = pad_inputs_to_size(before, agreed.num_tokens, pad=self._pad)
        if self.look is not None:
            self.look(padded.input_ids)
        return before, padded

    def _with_rows(self, keys: Any, count: int, width: int, prefix: int) -> PagedKeys[Any]:
        return keys_with_rows(keys, count, width, prefix, self._pad)


def _num_rows(values: Any) -> int:
    return len(values)


def _width_of(batch: Any) -> int:
    """Return the rows of each request; 0 where there is none, for somebody else to say."""
    return len(batch.input_ids) // max(len(batch.req_pool_indices), 1)


def forward_of(batch: Any, width: int | None) -> ForwardBatch:
    """Return what a forward on so many rows a request reads, as the batch whose fields are padded and put back.

    A batch that does not say whose rows it has gets one of the dump a request. Rows of features belong to no request,
    and have positions in the place of ids.
    """
    given, mode = vars(batch), ForwardMode.DECODE
    if isinstance(batch, TargetBatch):
        mode = ForwardMode.EXTEND if width is None else ForwardMode.TARGET_VERIFY
    elif isinstance(batch, DraftExtendBatch):
        mode = ForwardMode.EXTEND if width is None else ForwardMode.DRAFT_EXTEND
    elif isinstance(batch, FeatureBatch):
        given, width = {**given, "hidden_states": batch.features}, 1
    input_ids, window = given.get("input_ids", batch.positions), given.get("window_keys")
    requests = given.get("req_pool_indices")
    if requests is None:
        requests = input_ids[:: max(width or 0, 1)] * 0
    return ForwardBatch(
        mode,
        input_ids=input_ids,
        req_pool_indices=requests,
        seq_lens=given.get("prefix_lens", requests),
        positions=batch.positions,
        out_cache_loc=given.get("out_cache_loc"),
        swa_out_cache_loc=None if window is None else window.out_cache_loc,
        hidden_states=given.get("hidden_states"),
        num_tokens_per_req=width,
        captures_every_row=isinstance(batch, TargetBatch) and width is None,
    )


def on_rows_of(padded: ForwardBatch, batch: BatchT, **others: Any) -> BatchT:
    """Return a batch of a model on the rows of a padded one; ``others`` are the fields that a padded one lacks."""
    names = {"input_ids", "positions", "out_cache_loc", "hidden_states"} & vars(batch).keys()
    longer: Any = replace(batch, **{name: getattr(padded, name) for name in names}, **others)  # type: ignore[type-var]
    return longer  # type: ignore[no-any-return]


def keys_with_rows(keys: PagedKeys[Any], count: int, width: int, prefix: int, pad: Pad) -> PagedKeys[Any]:
    """Return keys with so many rows more, each of so many new tokens after a prefix, all of it in the dump."""
    if not count:
        return PagedKeys(keys.page_table, keys.cache_seqlens, keys.cu_seqlens_q, keys.page_size)
    num_pages = -(-(prefix + width) // keys.page_size)
    table = pad(keys.page_table, 1, max(0, num_pages - keys.page_table.shape[1]), 0)
    starts = pad(keys.cu_seqlens_q, 0, count, 0)
    num_live = len(keys.cache_seqlens)
    for row in range(num_live, num_live + count):
        starts[row + 1] = starts[row] + width
    return PagedKeys(
        pad(table, 0, count, 0),
        pad(keys.cache_seqlens, 0, count, prefix + width),
        starts,
        keys.page_size,
    )


def lists_with_rows(keys: ListedKeys[Any], count: int, pad: Pad) -> ListedKeys[Any]:
    """Return keys with so many tokens more, which see nothing."""
    indptr = pad(keys.kv_indptr, 0, count, 0)
    indptr[len(keys.kv_indptr) :] = keys.kv_indptr[-1]
    return ListedKeys(keys.kv_indices, indptr, keys.max_num_keys)


def live_target_output(padded: ForwardBatch, before: ForwardBatch, output: TargetOutput[Any]) -> TargetOutput[Any]:
    """Return the rows of live requests of what the target returned."""
    _, kept = post_forward_mlp_sync_batch(padded, before, ForwardOutput(output.logits, output.hidden_states))
    _, sampling = post_forward_mlp_sync_batch(padded, before, ForwardOutput(output.sampling_logits, None))
    return TargetOutput(kept.logits, kept.hidden_states, sampling.logits)


def live_draft_output(padded: ForwardBatch, before: ForwardBatch, output: DraftOutput[Any]) -> DraftOutput[Any]:
    """Return the rows of live requests of what the draft returned."""
    _, kept = post_forward_mlp_sync_batch(padded, before, ForwardOutput(output.probabilities, output.hidden_states))
    return DraftOutput(kept.logits, kept.hidden_states)


def opened(kv: Buffers, padded: ForwardBatch) -> Buffers:
    """Return buffers that know that the dump is written, too, where they know who writes them."""
    return kv.open(padded.out_cache_loc) if isinstance(kv, KVPool) else kv
