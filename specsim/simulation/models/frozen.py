"""The seam of a draft without KV: each of its layers reads one of the target's, and none writes."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from specsim.rejection import Reason, check_range, contradiction
from specsim.simulation.models.batches import DraftOutput, ListedKeys
from specsim.simulation.models.description import DraftSource, ModelDescription, Side
from specsim.simulation.models.protocol import Model, require_model

ArrayT = TypeVar("ArrayT")


@dataclass(frozen=True)
class FrozenDraftBatch(Generic[ArrayT]):
    """One token a beam, for a draft that reads the target's KV.

    Parameters
    ----------
    input_ids : int64 [request*beam]
        Token of each beam: at depth 1 the last output token, of which the target has no KV yet.
    positions : int64 [request*beam]
        Position of the last key, the same at every depth; nothing stands at the token's own position.
    keys : ListedKeys
        What the target has committed, which every beam of a request sees and nothing else.
    hidden_states : [request*beam, layer*hidden]
        At depth 1 the target's, of the last key; deeper what the forward before returned for the beam's parent.
    depth : int
        Depth of the tokens that it proposes, 1 or more.
    """

    input_ids: ArrayT
    positions: ArrayT
    keys: ListedKeys[ArrayT]
    hidden_states: ArrayT
    depth: int


@runtime_checkable
class FrozenKVModel(Model[ArrayT], Protocol[ArrayT]):
    """A model whose draft reads the target's KV; its other draft forwards are never asked for.

    Notes
    -----
    Source: semantics D.11.
    """

    def draft_frozen(self, batch: FrozenDraftBatch[ArrayT], kv: Mapping[str, Sequence[ArrayT]]) -> DraftOutput[ArrayT]:
        """Run the draft over one token a beam.

        ``kv`` has, by the name of a component of the target, one buffer a layer of the draft, as ``shared_kv`` returns
        them; they are only read.
        """


def shared_kv(description: ModelDescription, kv: Mapping[str, Sequence[ArrayT]]) -> dict[str, Sequence[ArrayT]]:
    """Return the target's buffers that the layers of the draft read, in the order of these layers."""
    layers = [description.target_layer_of[layer] for layer in range(description.num_assistant_layers)]
    names = [one.name for one in description.components_of(Side.TARGET)]
    return {name: [kv[name][layer] for layer in layers] for name in names}


def require_frozen_model(model: Any, arrays: str, topk: int, has_dp_attention: bool = False) -> ModelDescription:
    """Return the description of a model that a worker of FROZEN_KV_MTP can run.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: its draft does not read the target's KV, or it does not say which layers of it, or carries
        hidden states of another width than the target's; beams where other ranks wait; and what ``require_model``
        refuses.
    """
    facts = require_model(model, arrays, (DraftSource.TARGET_KV,))
    if not isinstance(model, FrozenKVModel):
        because = "FROZEN_KV_MTP drafts over the target's KV"
        raise contradiction("model", facts.name, "one with draft_frozen", because)
    components = facts.components_of(Side.TARGET)
    num_layers = min((one.num_layers for one in components), default=0)
    num_own = facts.num_assistant_layers
    check_range(Reason.BAD_CONFIGURATION, "description.num_assistant_layers", num_own, "a draft has layers", 1)
    for layer in range(num_own):
        what, found = f"target layer of draft layer {layer}", facts.target_layer_of.get(layer)
        if found is None:
            raise contradiction(
                what, "none", "an entry of description.target_layer_of", "the layer has no KV of its own"
            )
        if not 0 <= found < num_layers:
            because = "it reads the KV of that layer"
            raise contradiction(what, found, f"0 to {num_layers - 1}" if num_layers else "a target with KV", because)
    width = len(facts.draft_layers) * facts.hidden_width
    if facts.draft_hidden_width != width:
        because = "what the target says and what the draft carries on take one place"
        raise contradiction("description.draft_hidden_width", facts.draft_hidden_width, str(width), because)
    if has_dp_attention and topk > 1:
        raise contradiction("topk", topk, "1 where other ranks wait", "ranks would have to agree on copies of requests")
    return facts


class UnreadState(UserWarning):
    """A draft over the target's KV does not read its recurrent state."""


def warn_of_states(description: ModelDescription) -> None:
    """Warn the maker of a worker of a target with recurrent state: a draft over its KV alone does not see that."""
    if description.state_components:
        because = "a draft over its KV does not read that"
        # NOTE: the caller that makes the worker is outside its loop and the maker of its side.
        warnings.warn(f"{description.name} has recurrent state: {because}", UnreadState, stacklevel=4)


@contextmanager
def accepting_unread_states() -> Iterator[None]:
    """Keep quiet about targets with recurrent state, where somebody asks for every kind of pool."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreadState)
        yield
