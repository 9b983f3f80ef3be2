"""What a language model says of itself: what a worker allocates, asks for or refuses before the first token."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from specsim.config import INDEXER_PAGE_KEYS
from specsim.counts import ceil_to
from specsim.simulation.models.confidence import ConfidenceHead

FINAL_LAYER = -1
"""The number of the hidden states that the target's logits are computed from."""


class Side(StrEnum):
    """Whose forward writes a buffer."""

    TARGET = "TARGET"
    DRAFT = "DRAFT"


class DraftSource(StrEnum):
    """What the draft side of a model consumes beside the positions of its tokens."""

    HIDDEN = "tokens and hidden states: the target's when it catches up, its own while it drafts"
    TOKENS = "tokens alone"
    FEATURES = "hidden states of the target alone, projected into KV of its own; it drafts a block at once"
    TARGET_KV = "tokens, hidden states and the target's KV; it has none of its own"
    LAYERS = "tokens and the target's hidden states: one small layer a draft step, each with KV of its own"
    NOTHING = "nothing: drafts come from elsewhere, and it has no forward"


class Layout(StrEnum):
    """How the buffer of a layer is addressed by slot, and therefore how its entries move."""

    SLOTS = "one row a slot"
    INDEXER_PAGES = "one row of bytes for 64 slots: their keys first, then their scales"
    UNKNOWN = "known to the model alone, so that no one else can move an entry"


@dataclass(frozen=True)
class KVComponent:
    """What every slot holds in every layer of one side, under one name: keys, values, scales, a latent vector.

    ``row_shape`` and ``dtype`` are those of one row of a layer's buffer: of one slot's entry, or of a page of them.
    Layers with a sliding window see so many positions, their own included, and have slots of their own; ``window`` is 0
    for layers that see everything.
    """

    name: str
    row_shape: tuple[int, ...]
    dtype: str
    num_layers: int
    side: Side
    layout: Layout = Layout.SLOTS
    window: int = 0

    def buffer_shape(self, num_slots: int) -> tuple[int, ...]:
        """Return the shape of a layer's buffer for so many slots."""
        num_rows = num_slots
        if self.layout is Layout.INDEXER_PAGES:
            num_rows = ceil_to(num_slots, INDEXER_PAGE_KEYS) // INDEXER_PAGE_KEYS
        return (num_rows, *self.row_shape)


@dataclass(frozen=True)
class StateComponent:
    """Recurrent state of the target: what every request holds in every recurrent layer, whatever its length.

    It is 0 before the first token. ``row_shape`` and ``dtype`` are those of one request's state in one layer.
    """

    name: str
    row_shape: tuple[int, ...]
    dtype: str
    num_layers: int


class TokenByToken(Protocol):
    """Plain autoregressive decoding of one text: what the output of speculation is compared with."""

    def append(self, token: int) -> None:
        """Add one token."""

    def next_logits(self) -> Sequence[float]:
        """Return one logit a token of the vocabulary, for the token that comes next."""


@runtime_checkable
class ScoredTokenByToken(TokenByToken, Protocol):
    """The same of a model whose greedy logits make no distribution, and others do."""

    def next_sampling_logits(self) -> Sequence[float]:
        """Return one logit a token of the vocabulary, whose distribution is sampled from."""


@dataclass(frozen=True)
class ModelDescription:
    """Facts about a language model, target and draft together.

    Parameters
    ----------
    name : str
        What reports and rejections call it.
    arrays : str
        ``numpy`` or ``torch``: what its forwards take and return.
    vocab_size : int
        Tokens of the target.
    kv_components : tuple of KVComponent
        The buffers of both sides; a name occurs once a side.
    hidden_width, hidden_dtype : int, str
        A hidden state of one layer of the target.
    draft_source : DraftSource
        What the draft side consumes.
    draft_hidden_width : int
        A hidden state of the draft, in the same dtype; only of a draft that consumes hidden states.
    draft_layers : tuple of int
        The target's layers whose hidden states the draft consumes, side by side, when it catches up.
    auxiliary_layers : tuple of int
        Layers whose hidden states the target can return beside those of the final one.
    hot_token_id : int64 [draft_vocab] or None
        The token of each entry of the draft's vocabulary; None where it is the target's.
    state_components : tuple of StateComponent
        Recurrent state.
    num_assistant_layers : int
        Layers of a draft that reads the target's KV.
    target_layer_of : mapping
        The target's layer that each of them reads.
    has_sampling_logits : bool
        Whether it can be sampled from; a toy whose logits are hashes cannot.
    is_capturable : bool
        Whether its forwards can be captured in a CUDA graph: none waits for the device or has a shape that depends on
        entries.
    token_by_token : callable or None
        Starts decoding without batches, pools and drafts, in exact arithmetic. Without it, outputs are compared with
        what the model's own prefill chooses, token after token.
    confidence_head : ConfidenceHead or None
        Says how probably each draft of a chain is accepted; without it no verify can be scheduled.
    """

    name: str
    arrays: str
    vocab_size: int
    kv_components: tuple[KVComponent, ...]
    hidden_width: int
    hidden_dtype: str
    draft_source: DraftSource = DraftSource.HIDDEN
    draft_hidden_width: int = 0
    draft_layers: tuple[int, ...] = (FINAL_LAYER,)
    auxiliary_layers: tuple[int, ...] = ()
    hot_token_id: NDArray[np.int64] | None = None
    state_components: tuple[StateComponent, ...] = ()
    num_assistant_layers: int = 0
    target_layer_of: Mapping[int, int] = field(default_factory=dict)
    has_sampling_logits: bool = True
    is_capturable: bool = True
    token_by_token: Callable[[], TokenByToken] | None = None
    confidence_head: ConfidenceHead | None = None

    @property
    def has_draft_hidden(self) -> bool:
        """Whether hidden states travel from the target to the draft and from one draft forward to the next."""
        return self.draft_source in (DraftSource.HIDDEN, DraftSource.TARGET_KV)

    @property
    def hidden_layers(self) -> tuple[int, ...]:
        """The layers whose hidden states a worker asks every target forward for."""
        reads_target = self.draft_source not in (DraftSource.TOKENS, DraftSource.NOTHING)
        return self.draft_layers if reads_target else ()

    @property
    def num_ahead(self) -> int:
        """Tokens after a position that the draft's entries at the position may have consumed."""
        if self.draft_source is not DraftSource.LAYERS:
            return 1
        return max((one.num_layers for one in self.kv_components if one.side is Side.DRAFT), default=1)

    def components_of(self, side: Side) -> tuple[KVComponent, ...]:
        """Return the KV components of one side that have full slots, in order."""
        return tuple(one for one in self.kv_components if one.side is side and not one.window)

    @property
    def swa_components(self) -> tuple[KVComponent, ...]:
        """The KV components that have SWA slots, in order."""
        return tuple(one for one in self.kv_components if one.window)

    @property
    def window(self) -> int:
        """Positions that the layers with a sliding window see; 0 where there are none."""
        return max((one.window for one in self.kv_components), default=0)
