"""A target and a draft of two checkpoints, as a worker takes them."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from specsim.assertion import require_present
from specsim.checkpoints.attention import Window
from specsim.checkpoints.causal_lm import CausalLM
from specsim.checkpoints.eagle import EagleHead
from specsim.checkpoints.folder import Folder
from specsim.checkpoints.in_numpy import InNumpy
from specsim.checkpoints.near_ties import Judge
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput, DraftStepBatch, TargetBatch, TargetOutput
from specsim.simulation.models.description import FINAL_LAYER, DraftSource, ModelDescription, Side

KV = Mapping[str, Sequence[Tensor]]


class CheckpointModel:
    """A target, and a draft that has KV of its own: a model that reads tokens alone, or a head over hidden states.

    Without a draft, something else proposes.

    Parameters
    ----------
    target : CausalLM
        What the worker verifies with.
    draft : CausalLM, EagleHead or None
        What it drafts with; of the same vocabulary.
    """

    def __init__(self, target: CausalLM, draft: CausalLM | EagleHead | None) -> None:
        self.target, self._draft = target, draft
        head = draft if isinstance(draft, EagleHead) else None
        source = DraftSource.NOTHING if draft is None else DraftSource.TOKENS
        drafts = () if draft is None else draft.components(Side.DRAFT)
        self.description = ModelDescription(
            name=target.folder.name,
            arrays="torch",
            vocab_size=target.folder.vocab_size,
            kv_components=(*target.components(Side.TARGET), *drafts),
            hidden_width=target.hidden_width,
            hidden_dtype=str(target.dtype).removeprefix("torch."),
            draft_source=source if head is None else DraftSource.HIDDEN,
            draft_hidden_width=0 if head is None else head.hidden_width,
            draft_layers=(FINAL_LAYER,) if head is None else head.target_layers,
            auxiliary_layers=tuple(range(target.num_layers)),
            hot_token_id=None if head is None else head.hot_token_id,
            is_capturable=all(one.is_capturable for one in (target, draft) if one is not None),
        )

    def prefill(self, batch: TargetBatch[Tensor], kv: KV, states: KV) -> TargetOutput[Tensor]:
        """Run chunks of prompts."""
        return self._run_target(batch, kv)

    def verify(self, batch: TargetBatch[Tensor], kv: KV, states: KV, scratch: KV) -> TargetOutput[Tensor]:
        """Run one tree a request."""
        return self._run_target(batch, kv)

    def draft_step(self, batch: DraftStepBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Run the draft over one token a beam."""
        return self._run_draft(batch, kv, None)

    def draft_extend(self, batch: DraftExtendBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Run the draft over what it has to catch up with."""
        return self._run_draft(batch, kv, batch.select)

    def _run_target(self, batch: TargetBatch[Tensor], kv: KV) -> TargetOutput[Tensor]:
        window = Window(batch.keys, batch.positions, batch.tree_mask)
        return TargetOutput(
            *self.target.run(batch.input_ids, batch.out_cache_loc, window, kv, batch.select, batch.hidden_layers)
        )

    def _run_draft(
        self, batch: DraftStepBatch[Tensor] | DraftExtendBatch[Tensor], kv: KV, select: Tensor | None
    ) -> DraftOutput[Tensor]:
        draft = self._draft
        if draft is None:
            raise AssertionError(f"draft of {self.description.name} = None, but should be there")
        window, states = Window(batch.keys, batch.positions, None), None
        if isinstance(draft, EagleHead):
            given = require_present("hidden_states", batch.hidden_states)
            logits, states = draft.run(batch.input_ids, given, batch.out_cache_loc, window, kv, select)
        else:
            logits, _ = draft.run(batch.input_ids, batch.out_cache_loc, window, kv, select)
        return DraftOutput(torch.softmax(logits.float(), dim=-1), states)


def load(
    target: Folder, draft: Folder | None, dtype: str | None, has_kernels: bool
) -> tuple["CheckpointModel | InNumpy", Judge]:
    """Return checkpoints as a model, in the arrays of a layer, and what judges its greedy outputs.

    Parameters
    ----------
    dtype : str or None
        Of weights, keys and values; None for float32 on a CPU, and the target's own on a GPU.
    has_kernels : bool
        Whether it is for the workers of ``specsim.gpu``, on their device; otherwise for those of NumPy.

    Raises
    ------
    Absent
        A file with weights is not there.
    SpecRejection
        BAD_CONFIGURATION: weights are missing, or layers do not run over pages.
    """
    device = torch.device("cpu")
    if has_kernels:
        from specsim.gpu.arrays import DEVICE

        device = DEVICE
    own = torch.float32 if device.type == "cpu" else target.dtype
    chosen: torch.dtype = own if dtype is None else getattr(torch, dtype)
    first = CausalLM(target, device, chosen, has_kernels)
    second: CausalLM | EagleHead | None = None
    if draft is not None:
        second = EagleHead(draft, first) if draft.head else CausalLM(draft, device, chosen, has_kernels)
    model = CheckpointModel(first, second)
    return model if has_kernels else InNumpy(model), Judge(first)
