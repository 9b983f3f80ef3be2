"""The seam of a draft that has one small layer a step: what a worker asks of it beside what it asks of every model."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from specsim.config import SpecConfig
from specsim.rejection import contradiction
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput
from specsim.simulation.models.description import DraftSource, ModelDescription, Side
from specsim.simulation.models.protocol import Model, require_model

ArrayT = TypeVar("ArrayT")


@runtime_checkable
class LayeredModel(Model[ArrayT], Protocol[ArrayT]):
    """A target, and a draft of small layers that propose one token each.

    A draft component of its description has one KV layer a draft layer.
    """

    def draft_layer(
        self, layer: int, batch: DraftExtendBatch[ArrayT], kv: Mapping[str, Sequence[ArrayT]]
    ) -> DraftOutput[ArrayT]:
        """Run one layer over its window and return the proposals of the selected rows, without hidden states.

        At draft position p stands the token of position p+1+layer, and the target's hidden state of p. ``kv`` has the
        buffers of all layers; the layer writes ``kv[name][layer]`` and reads no other. A window may begin before its
        text: rows that are more than the keys of their request have slot 0, see nothing, and are not selected.
        """


def require_layered(model: Any, config: SpecConfig, arrays: str) -> ModelDescription:
    """Return the description of a model that a worker of a layer a step can run.

    Parameters
    ----------
    model : object
        What the worker was given.
    config : SpecConfig
        The sizes of its drafts.
    arrays : str
        ``numpy`` or ``torch``, what the worker computes on.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: it is no such model, computes on other arrays, contradicts itself, has another number of
        layers than a draft has steps; or the drafts are trees.

    Notes
    -----
    Source: semantics E.4.
    """
    facts = require_model(model, arrays, (DraftSource.LAYERS,))
    if not isinstance(model, LayeredModel):
        because = "every draft step runs a layer of its own"
        raise contradiction("model", type(model).__name__, "a specsim.simulation.models.layered.LayeredModel", because)
    for one in facts.kv_components:
        if one.side is Side.DRAFT and one.num_layers != config.num_steps:
            what = f"layers of the draft component {one.name!r}"
            raise contradiction(what, one.num_layers, str(config.num_steps), "a draft has a layer a step")
    if config.topk != 1:
        raise contradiction("topk", config.topk, "1", "each layer proposes one token, and together they are a chain")
    return facts
