"""The batch of one forward, field by field: what is padded to the size that all ranks, or a graph, agree on."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from specsim.phases.tags import ForwardMode
from specsim.rejection import check_length


class Along(Enum):
    """What a field of a forward batch has an entry for."""

    TOKEN = "token"
    REQUEST = "request"


FIELDS = {
    "input_ids": Along.TOKEN,
    "positions": Along.TOKEN,
    "mrope_positions": Along.TOKEN,
    "out_cache_loc": Along.TOKEN,
    "swa_out_cache_loc": Along.TOKEN,
    "hidden_states": Along.TOKEN,
    "req_pool_indices": Along.REQUEST,
    "seq_lens": Along.REQUEST,
    "seq_lens_cpu": Along.REQUEST,
    "extend_seq_lens": Along.REQUEST,
    "extend_seq_lens_cpu": Along.REQUEST,
    "extend_prefix_lens": Along.REQUEST,
    "extend_prefix_lens_cpu": Along.REQUEST,
    "topk_p": Along.REQUEST,
    "topk_index": Along.REQUEST,
    "num_accepted_drafts": Along.REQUEST,
    "num_accepted_tokens": Along.REQUEST,
    "mamba_track_indices": Along.REQUEST,
    "mamba_track_mask": Along.REQUEST,
    "mamba_track_seqlens": Along.REQUEST,
    "encoder_lens": Along.REQUEST,
    "lora_ids": Along.REQUEST,
    "request_id_hashes": Along.REQUEST,
    "room_ids": Along.REQUEST,
}
"""The fields that have one entry a token or a request; ``mrope_positions`` [3, token] has them along its last axis."""


@dataclass(frozen=True)
class ForwardBatch:
    """What a forward reads, whatever its mode; a field that the mode or the engine does without is None.

    Arrays may be NumPy's or torch's, those that end in ``_cpu`` and ``lora_ids`` are tuples of the host. Only
    ``input_ids``, ``req_pool_indices`` and ``seq_lens`` are always there. ``hidden_states`` has a row a token: where
    the object of a phase has one a request, the worker has repeated it for every beam.

    Parameters
    ----------
    mode : ForwardMode
        What the forward does.
    num_tokens_per_req : int or None
        Rows of a request that the object of the phase tells of; None for a forward without such an object.
    seq_lens_sum : int or None
        Sum of the lengths; None where the host does not know them.
    extend_num_tokens : int or None
        Rows of ``input_ids`` of an extend.
    num_live_tokens : int or None
        Rows that are no padding; None before anything is padded.
    captures_every_row : bool
        Whether an extend returns the hidden state of each token, and not of each request's last one alone.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: two fields have entries for different numbers of tokens or requests.

    Notes
    -----
    Source: semantics D.9.
    """

    mode: ForwardMode
    input_ids: Any
    req_pool_indices: Any
    seq_lens: Any
    positions: Any = None
    mrope_positions: Any = None
    out_cache_loc: Any = None
    swa_out_cache_loc: Any = None
    hidden_states: Any = None
    seq_lens_cpu: tuple[int, ...] | None = None
    seq_lens_sum: int | None = None
    extend_seq_lens: Any = None
    extend_seq_lens_cpu: tuple[int, ...] | None = None
    extend_prefix_lens: Any = None
    extend_prefix_lens_cpu: tuple[int, ...] | None = None
    extend_num_tokens: int | None = None
    topk_p: Any = None
    topk_index: Any = None
    num_accepted_drafts: Any = None
    num_accepted_tokens: Any = None
    mamba_track_indices: Any = None
    mamba_track_mask: Any = None
    mamba_track_seqlens: Any = None
    encoder_lens: Any = None
    lora_ids: tuple[str | None, ...] | None = None
    request_id_hashes: Any = None
    room_ids: Any = None
    num_tokens_per_req: int | None = None
    num_live_tokens: int | None = None
    captures_every_row: bool = False

    def __post_init__(self) -> None:
        expected = {Along.TOKEN: self.num_tokens, Along.REQUEST: self.num_requests}
        for name, along in FIELDS.items():
            value = getattr(self, name)
            if value is not None:
                because = f"it has one entry a {along.value}"
                check_length(f"ForwardBatch.{name} length", entries_of(name, value), expected[along], because)

    @property
    def num_requests(self) -> int:
        """Requests of the forward, padding included."""
        return len(self.req_pool_indices)

    @property
    def num_tokens(self) -> int:
        """Rows of the forward, padding included."""
        return len(self.input_ids)


@dataclass(frozen=True)
class ForwardOutput:
    """What a forward returns: ``logits`` and ``hidden_states``, each with the rows of its mode, or None."""

    logits: Any
    hidden_states: Any


def entries_of(name: str, value: Any) -> int:
    """Return how many tokens or requests a field has entries for."""
    return int(value.shape[-1]) if name == "mrope_positions" else len(value)
