"""What the forwards of a language model receive and return; every array is the worker's, in its array library.

All of it is prepared outside of a forward, so that a forward can be captured: shapes, flags and the depth are known on
the host when it is queued, lengths and slots are entries of arrays. A row that pads a batch has row 0, length 1 and
slot 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

ArrayT = TypeVar("ArrayT")


@dataclass(frozen=True)
class PagedKeys(Generic[ArrayT]):
    """The keys of each request are all positions of its row; its new tokens are the last of them.

    ``page_table`` int32 [request, page] has the page of each ``page_size`` positions, and whatever lies in the row
    past the request's length; ``cache_seqlens`` int32 [request] counts the keys, new tokens included;
    ``cu_seqlens_q`` int32 [request+1] says where each request's tokens start.
    """

    page_table: ArrayT
    cache_seqlens: ArrayT
    cu_seqlens_q: ArrayT
    page_size: int


@dataclass(frozen=True)
class ListedKeys(Generic[ArrayT]):
    """The keys of each token are listed, its own slot among them.

    Token t sees the slots ``kv_indices[kv_indptr[t]:kv_indptr[t+1]]``, at most ``max_num_keys``; both are int32, and
    what lies in ``kv_indices`` past the last list is undefined.
    """

    kv_indices: ArrayT
    kv_indptr: ArrayT
    max_num_keys: int


@dataclass(frozen=True)
class WindowKeys(Generic[ArrayT]):
    """Where the layers with a sliding window write and read: SWA slots, 0 for positions that have none.

    ``kv`` has, by the name of a component, one buffer [SWA slot, *row_shape] a layer; ``out_cache_loc`` int64 [token]
    the SWA slot of each new entry, ``page_table`` int64 [request, position] that of each position of a row. A token at
    position p sees the positions p−``window``+1 to p of its path, and reads nothing before them: it is gone.
    """

    kv: Mapping[str, Sequence[ArrayT]]
    out_cache_loc: ArrayT
    page_table: ArrayT
    window: int


@dataclass(frozen=True)
class TargetBatch(Generic[ArrayT]):
    """Chunks of prompts, or a tree a request, for the target.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request, which says where its recurrent state lies.
    input_ids, positions, out_cache_loc : int64 [token]
        Token, position and slot of each new entry, request after request.
    prefix_lens : int64 [request]
        Positions that were there before: the start position of a chunk, the committed length of a tree.
    keys : PagedKeys
        Which keys each request has.
    tree_mask : bool [request*node*node] or None
        Which nodes see which, one square a request; None where the new tokens are causal.
    parents : int64 [request, node] or None
        Parent of each node, -1 for the root; only for a model with recurrent state.
    select : int64 [row] or None
        The tokens whose logits are asked for; None for all.
    hidden_layers : tuple of int
        The layers whose hidden states are asked for, -1 for the final one; they are returned side by side.
    is_sampled : bool
        Whether some request of the batch is sampled, so that logits are needed that can be sampled from.
    window_keys : WindowKeys or None
        Only for a model that has layers with a sliding window.
    """

    req_pool_indices: ArrayT
    input_ids: ArrayT
    positions: ArrayT
    out_cache_loc: ArrayT
    prefix_lens: ArrayT
    keys: PagedKeys[ArrayT]
    tree_mask: ArrayT | None
    parents: ArrayT | None
    select: ArrayT | None
    hidden_layers: tuple[int, ...]
    is_sampled: bool
    window_keys: WindowKeys[ArrayT] | None = None


@dataclass(frozen=True)
class DraftStepBatch(Generic[ArrayT]):
    """One new token a beam, for the draft.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request; its beams are neighbours.
    input_ids, positions, out_cache_loc : int64 [request*beam]
        Token, draft position and slot of each new entry. At draft position p stands the token of position p+1.
    keys : ListedKeys
        Which slots each beam sees.
    hidden_states : [request*beam, draft_hidden] or None
        What the forward before returned for the beam's parent; None for a draft that consumes tokens alone.
    depth : int
        Depth of the tokens that it proposes, 2 or more.
    """

    req_pool_indices: ArrayT
    input_ids: ArrayT
    positions: ArrayT
    out_cache_loc: ArrayT
    keys: ListedKeys[ArrayT]
    hidden_states: ArrayT | None
    depth: int


@dataclass(frozen=True)
class DraftExtendBatch(Generic[ArrayT]):
    """Tokens with which the draft catches up with the target, causal.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    input_ids, positions, out_cache_loc : int64 [token]
        Token, draft position and slot of each new entry. At draft position p stands the token of position p+1.
    keys : PagedKeys
        Which keys each request has.
    hidden_states : [token, layer*hidden] or None
        The target's, of position p, of the layers that the draft consumes; None for a draft that consumes tokens alone.
    select : int64 [request]
        The last token of each request; its row is what the next draft starts from, at depth 1.
    """

    req_pool_indices: ArrayT
    input_ids: ArrayT
    positions: ArrayT
    out_cache_loc: ArrayT
    keys: PagedKeys[ArrayT]
    hidden_states: ArrayT | None
    select: ArrayT


@dataclass(frozen=True)
class TargetOutput(Generic[ArrayT]):
    """What a forward of the target returns; the worker may write into its logits.

    ``logits`` [row, vocab] is int64, float32 or bfloat16 and has the greedy choice on top, the lowest id among equals;
    ``hidden_states`` [token, layer*hidden] has the layers that were asked for, None if none. ``sampling_logits``
    float32 or bfloat16 [row, vocab] is what a sampled batch is sampled from; None where ``logits`` serve for that too.
    ``reported_states`` [row, hidden] is the worker's: it cuts what users are handed out of ``hidden_states``, a row of
    logits a row.
    """

    logits: ArrayT
    hidden_states: ArrayT | None
    sampling_logits: ArrayT | None = None
    reported_states: ArrayT | None = None

    def mapped(self, change: Callable[[ArrayT], ArrayT]) -> "TargetOutput[ArrayT]":
        """Return the output with every array that the forward returned changed, row by row."""
        hidden_states, sampling_logits = self.hidden_states, self.sampling_logits
        return replace(
            self,
            logits=change(self.logits),
            hidden_states=None if hidden_states is None else change(hidden_states),
            sampling_logits=None if sampling_logits is None else change(sampling_logits),
        )


@dataclass(frozen=True)
class DraftOutput(Generic[ArrayT]):
    """What a forward of the draft returns.

    ``probabilities`` float32 [row, draft_vocab] are over the draft's vocabulary, one row a beam or selected token;
    ``hidden_states`` [row, draft_hidden] go into the next forward, None for a draft that consumes tokens alone.
    """

    probabilities: ArrayT
    hidden_states: ArrayT | None
