"""The attention of a checkpoint's own layers, over the paged KV of a worker instead of a cache of their own.

Transformers look their attention up by name. Under ``PAGED`` they find ``attend``, which writes the keys and values of
the new tokens into the worker's slots and lets every token see what the worker says; what else a layer computes is its
own. Which slots these are stands in ``forwarding`` while a forward runs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from specsim.simulation.models.batches import ListedKeys, PagedKeys

PAGED = "specsim_paged"
"""The name by which the layers of a checkpoint find ``attend``."""

IGNORED = {
    "cache_position",
    "dropout",
    "is_causal",
    "layer_idx",
    "output_attentions",
    "output_router_logits",
    "position_embeddings",
    "position_ids",
    "use_cache",
}
"""What layers may hand over beside queries, keys and values that changes nothing here."""

UNDERSTOOD = {"sliding_window", "softcap", "s_aux"}
"""What changes who sees whom, or the scores: a window, a bound of scores, and a score that no key has."""


@dataclass(frozen=True)
class Window:
    """Which keys the new tokens of a forward see, whatever the layer.

    ``positions`` int64 [token] are those of the new tokens; ``tree_mask`` bool [request*node*node] says which nodes see
    which, None where the new tokens are causal.
    """

    keys: PagedKeys[Tensor] | ListedKeys[Tensor]
    positions: Tensor
    tree_mask: Tensor | None


@dataclass(frozen=True)
class Scores:
    """How a layer makes weights of the products of queries and keys.

    ``sliding_window`` is how many positions a token sees, its own included, ``softcap`` the bound that scores are
    squeezed into, ``sinks`` [head] a score that takes its share of the weights and has no value.
    """

    scaling: float
    sliding_window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None

    @property
    def is_plain(self) -> bool:
        """Whether they are the exponents of scaled products, and nothing else."""
        return self.sliding_window is None and self.softcap is None and self.sinks is None


Attend = Callable[[Tensor, Tensor, Tensor, Scores], Tensor]
"""Attends from the queries [token, head, dim] of new tokens to the keys and values [slot, kv_head, dim] of a layer."""


@dataclass
class Forward:
    """A forward over the pages of a worker: where its new tokens are written, and what they see.

    ``buffers`` are the keys and the values [slot, kv_head, dim] of every layer.
    """

    out_cache_loc: Tensor
    buffers: Sequence[tuple[Tensor, Tensor]]
    attend: Attend

    def run_layer(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: Scores) -> Tensor:
        """Write keys and values of a layer, then attend; all are [token, head, dim]."""
        keys, values = self.buffers[layer]
        keys.index_copy_(0, self.out_cache_loc, key.to(keys.dtype))
        values.index_copy_(0, self.out_cache_loc, value.to(values.dtype))
        return self.attend(query, keys, values, how)


@dataclass
class Survey:
    """A forward that asks the layers what they would store: rows of keys and values, and how scores are made."""

    rows: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    scores: dict[int, Scores] = field(default_factory=dict)
    strangers: set[str] = field(default_factory=set)
    is_called_twice: bool = False

    def run_layer(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: Scores) -> Tensor:
        """Note the shapes, and attend to nothing."""
        self.is_called_twice |= layer in self.rows
        self.rows[layer], self.scores[layer] = (tuple(key.shape[1:]), tuple(value.shape[1:])), how
        return query.new_zeros(*query.shape[:2], value.shape[-1])


_running: ContextVar[Forward | Survey] = ContextVar("_running")


@contextmanager
def forwarding(forward: Forward | Survey) -> Iterator[None]:
    """Let the layers that run in the block attend as a forward says."""
    token = _running.set(forward)
    try:
        yield
    finally:
        _running.reset(token)


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: object, **given: Any
) -> tuple[Tensor, None]:
    """Return what the new tokens attend to [1, token, head, dim], from queries, keys and values [1, head, token, dim].

    It has the form that transformers call attention in; they make no mask for a name that they do not know.
    """
    forward = _running.get()
    scaling = given.pop("scaling", None)
    how = Scores(
        query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        given.get("sliding_window"),
        given.get("softcap"),
        given.get("s_aux"),
    )
    if isinstance(forward, Survey):
        known = IGNORED | UNDERSTOOD
        forward.strangers |= {name for name, one in given.items() if name not in known and one is not None}
    layer: Any = module.layer_idx
    query, key, value = (one[0].transpose(0, 1) for one in (query, key, value))
    return forward.run_layer(int(layer), query, key, value, how)[None], None


def register() -> None:
    """Make the name known to transformers."""
    from transformers import AttentionInterface

    AttentionInterface.register(PAGED, attend)


def plainly(window: Window) -> Attend:
    """Return attention in torch, one request after another; it reads lengths, so that no graph can be captured."""
    requests = list(_seen(window))

    def attend_plainly(query: Tensor, keys: Tensor, values: Tensor, how: Scores) -> Tensor:
        attended = query.new_empty(*query.shape[:2], values.shape[-1])
        for rows, slots, key_positions, visible in requests:
            if how.sliding_window is not None:
                visible = visible & (key_positions > window.positions[rows, None] - how.sliding_window)
            attended[rows] = _attend_one(query[rows], keys[slots], values[slots], visible, how)
        return attended

    return attend_plainly


def _attend_one(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor, how: Scores) -> Tensor:
    """Attend from [token, head, dim] to [key, kv_head, dim], of which a token sees [token, key]."""
    num_tokens, num_heads, _ = query.shape
    groups = query.view(num_tokens, keys.shape[1], -1, query.shape[2])
    scores = torch.einsum("tkgd,skd->kgts", groups, keys) * how.scaling
    if how.softcap is not None:
        scores = torch.tanh(scores / how.softcap) * how.softcap
    scores = scores.masked_fill(~visible, -math.inf)
    if how.sinks is not None:
        sinks = how.sinks.to(scores.dtype).view(keys.shape[1], -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sinks], dim=-1)
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)[..., : keys.shape[0]]
    return torch.einsum("kgts,skd->tkgd", weights, values).reshape(num_tokens, num_heads, values.shape[2])


def _seen(window: Window) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Yield, for the tokens of each request: which they are, the slots and positions of its keys, and who sees whom."""
    keys, device = window.keys, window.positions.device
    if isinstance(keys, ListedKeys):
        for token, (begin, end) in enumerate(pairwise(keys.kv_indptr.tolist()[: window.positions.shape[0] + 1])):
            # NOTE: a list is in the order of positions and ends with the token itself; one of padding may be empty.
            slots = keys.kv_indices[begin:end].long() if end > begin else keys.kv_indices.new_zeros(1).long()
            num_keys = slots.shape[0]
            key_positions = window.positions[token] - torch.arange(num_keys - 1, -1, -1, device=device)
            yield slice(token, token + 1), slots, key_positions, slots.new_ones(1, num_keys, dtype=torch.bool)
        return
    squares = window.tree_mask
    for request, (begin, end) in enumerate(pairwise(keys.cu_seqlens_q.tolist())):
        num_tokens = end - begin
        num_keys = max(int(keys.cache_seqlens[request]), num_tokens)
        place = torch.arange(num_keys, device=device)
        slots = keys.page_table[request, place // keys.page_size].long() * keys.page_size + place % keys.page_size
        before, rows = num_keys - num_tokens, slice(begin, end)
        if squares is None:
            yield rows, slots, place, place <= torch.arange(before, num_keys, device=device)[:, None]
            continue
        square = squares[request * num_tokens**2 : (request + 1) * num_tokens**2].view(num_tokens, num_tokens)
        seen = torch.cat([square.new_ones(num_tokens, before), square], dim=1)
        yield rows, slots, torch.cat([place[:before], window.positions[rows]]), seen
