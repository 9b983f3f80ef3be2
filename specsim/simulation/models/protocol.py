"""The seam: the only thing that a worker knows of a language model."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from specsim.rejection import contradiction
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput, DraftStepBatch, TargetBatch, TargetOutput
from specsim.simulation.models.description import DraftSource, ModelDescription, Side

ArrayT = TypeVar("ArrayT")
_ITS_OWN_KV = (DraftSource.HIDDEN, DraftSource.TOKENS)


@runtime_checkable
class Model(Protocol[ArrayT]):
    """A target and its draft.

    A model owns its weights and nothing else. The worker owns the pools: ``kv`` has, by the name of a component, one
    buffer [slot, *row_shape] a layer, which a forward writes at ``out_cache_loc`` and nowhere else; ``states`` has, by
    the name of a component, one buffer [row, *row_shape] a recurrent layer. A forward reads no entry that its metadata
    does not name.
    """

    @property
    def description(self) -> ModelDescription:
        """What it says of itself; the same object for as long as it lives."""

    def prefill(
        self,
        batch: TargetBatch[ArrayT],
        kv: Mapping[str, Sequence[ArrayT]],
        states: Mapping[str, Sequence[ArrayT]],
    ) -> TargetOutput[ArrayT]:
        """Run chunks of prompts through the target.

        A chunk starts at its request's ``prefix_lens``; what lies before is in the cache. ``states[name][layer][row]``
        holds the state before the chunk, and the state after it when this returns.
        """

    def verify(
        self,
        batch: TargetBatch[ArrayT],
        kv: Mapping[str, Sequence[ArrayT]],
        states: Mapping[str, Sequence[ArrayT]],
        scratch: Mapping[str, Sequence[ArrayT]],
    ) -> TargetOutput[ArrayT]:
        """Run one tree a request through the target; every request has as many nodes.

        Without ``tree_mask`` requests have chains, each as long as ``keys`` says, and ``scratch`` has more nodes than
        that; the last requests may be padding in row 0, of which it has none.

        ``states`` is read and left as it is. The state after each node is written into ``scratch[name][layer]``
        [request, node, *row_shape], from which the worker takes that of the last accepted node.
        """

    def draft_step(self, batch: DraftStepBatch[ArrayT], kv: Mapping[str, Sequence[ArrayT]]) -> DraftOutput[ArrayT]:
        """Run the draft over one new token a beam."""

    def draft_extend(self, batch: DraftExtendBatch[ArrayT], kv: Mapping[str, Sequence[ArrayT]]) -> DraftOutput[ArrayT]:
        """Run the draft over several new tokens a request and return the selected rows."""


def require_model(model: Any, arrays: str, draft_sources: Collection[DraftSource] = _ITS_OWN_KV) -> ModelDescription:
    """Return the description of a model that a worker with a KV-cached draft can run.

    Parameters
    ----------
    model : object
        What the worker was given.
    arrays : str
        ``numpy`` or ``torch``, what the worker computes on.
    draft_sources : collection of DraftSource
        What the draft may consume.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: it is no model, computes on other arrays, or contradicts itself.
    """
    if not isinstance(model, Model):
        loader = {"numpy": "specsim.reference.models.load_model", "torch": "specsim.gpu.models.load_model"}[arrays]
        because = f"the worker runs its forwards; {loader} makes a toy model one"
        raise contradiction("model", type(model).__name__, "a specsim.simulation.models.protocol.Model", because)
    facts = model.description
    if facts.arrays != arrays:
        raise contradiction("description.arrays", facts.arrays, arrays, "the worker's buffers are of that kind")
    if facts.draft_source not in draft_sources:
        expected, because = " or ".join(one.name for one in draft_sources), "the worker drafts with such a model"
        if draft_sources == _ITS_OWN_KV:
            because = "the worker drafts with a draft model that has KV of its own"
        raise contradiction("description.draft_source", facts.draft_source.name, expected, because)
    for side in Side:
        names = [one.name for one in facts.kv_components if one.side is side]
        if len(set(names)) != len(names):
            raise contradiction(f"{side.value} components", names, "different names", "buffers are passed by name")
    windows = sorted({one.window for one in facts.swa_components})
    if len(windows) > 1 or any(window < 1 for window in windows):
        raise contradiction(
            "windows of SWA components", windows, "one, of at least 1", "one map of slots serves all of them"
        )
    if any(one.side is Side.DRAFT for one in facts.swa_components):
        raise contradiction(
            "side of SWA components", Side.DRAFT.value, Side.TARGET.value, "the draft sees its whole text"
        )
    missing = sorted(set(facts.hidden_layers) - {-1, *facts.auxiliary_layers})
    if missing:
        raise contradiction(
            "description.draft_layers", missing, "-1 or auxiliary_layers", "the target returns no others"
        )
    return facts
