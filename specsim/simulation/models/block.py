"""The seam of a draft that reads the target's features and drafts a block at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from specsim.rejection import contradiction
from specsim.simulation.models.batches import DraftOutput, PagedKeys
from specsim.simulation.models.description import DraftSource, ModelDescription
from specsim.simulation.models.protocol import Model, require_model

ArrayT = TypeVar("ArrayT")

READS_FEATURES = (DraftSource.HIDDEN, DraftSource.FEATURES)
"""What the draft may consume: one that goes on from hidden states may draft blocks as well."""


@dataclass(frozen=True)
class FeatureBatch(Generic[ArrayT]):
    """Positions of which the target's features become KV of the draft.

    ``positions`` and ``out_cache_loc`` int64 [token]; ``features`` [token, layer*hidden] are the target's hidden states
    of these positions, of the layers that ``description.draft_layers`` names, side by side.
    """

    positions: ArrayT
    out_cache_loc: ArrayT
    features: ArrayT


@dataclass(frozen=True)
class BlockBatch(Generic[ArrayT]):
    """One block a request: its root and masks, each of which sees all keys of the request and the whole block.

    ``input_ids``, ``positions`` and ``out_cache_loc`` int64 [request*node]; ``keys`` are the last positions of each
    text and, after them, the block. Every request has ``num_draft_tokens`` positions.
    """

    input_ids: ArrayT
    positions: ArrayT
    out_cache_loc: ArrayT
    keys: PagedKeys[ArrayT]
    num_draft_tokens: int


@runtime_checkable
class BlockModel(Model[ArrayT], Protocol[ArrayT]):
    """A model whose draft's KV at a position is a projection of the target's features of that position.

    Notes
    -----
    Source: semantics A.14, A.14b.
    """

    def project_features(self, batch: FeatureBatch[ArrayT], kv: Mapping[str, Sequence[ArrayT]]) -> None:
        """Write the draft's KV of some positions."""

    def draft_block(self, batch: BlockBatch[ArrayT], kv: Mapping[str, Sequence[ArrayT]]) -> DraftOutput[ArrayT]:
        """Run the draft over blocks; ``probabilities`` [request*(node-1), vocab] are those of the masks, in order."""


def require_block_model(model: Any, arrays: str) -> ModelDescription:
    """Return the description of a model that a worker of DFLASH can run.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: its draft cannot draft blocks or reads no features, and what ``require_model`` refuses.
    """
    facts = require_model(model, arrays, READS_FEATURES)
    if not isinstance(model, BlockModel):
        because = "DFLASH drafts blocks over KV that is made of the target's features"
        raise contradiction("model", facts.name, "one with project_features and draft_block", because)
    return facts
