"""A small transformer and its draft, written against the Model protocol alone: GQA, RoPE, paged KV, tree masks."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specsim import gpu
from specsim.simulation.models.batches import (
    DraftExtendBatch,
    DraftOutput,
    DraftStepBatch,
    ListedKeys,
    PagedKeys,
    TargetBatch,
    TargetOutput,
)
from specsim.simulation.models.description import FINAL_LAYER, DraftSource, KVComponent, ModelDescription, Side

KV = Mapping[str, Sequence[Tensor]]


@dataclass(frozen=True)
class Sizes:
    """Sizes of both sides and the element type of all numbers; ``context`` says how much comes from attention."""

    vocab_size: int = 32
    hidden: int = 32
    num_heads: int = 4
    num_kv_heads: int = 2
    num_target_layers: int = 2
    num_draft_layers: int = 2
    context: float = 1.0
    dtype: str = "float64"

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden // self.num_heads


@dataclass(frozen=True)
class Layer:
    """Projections of an attention layer, and the two matrices after it."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    up: Tensor
    down: Tensor


@dataclass(frozen=True)
class Trees:
    """The keys of the new tokens, a tree of ``num_nodes`` of them after another.

    ``page_table`` int32 [tree, page] has the pages of each tree, ``lengths`` int32 [tree] counts its keys, of which its
    nodes are the last; ``mask`` bool [tree*node*node] says which nodes each node sees.
    """

    page_table: Tensor
    lengths: Tensor
    mask: Tensor
    num_nodes: int
    page_size: int


Attend = Callable[[Tensor, Tensor, Tensor, Trees], Tensor]
"""Attends from queries [token, head, dim] to keys and values [slot, kv_head, dim] of trees."""


class Transformer:
    """A target, and a draft that consumes its hidden states, or tokens alone.

    Parameters
    ----------
    sizes : Sizes
        Layers, heads and widths.
    seed : int
        Of the weights.
    device : torch.device
        Where the weights lie, and the worker's pools.
    draft_source : DraftSource
        HIDDEN or TOKENS.
    draft_layers : tuple of int
        The target's layers whose hidden states the draft consumes.
    attend : callable
        ``attend_plainly``, or ``attend_in_kernels`` for float32 and narrower types.
    """

    def __init__(
        self,
        sizes: Sizes,
        seed: int,
        device: torch.device,
        draft_source: DraftSource = DraftSource.HIDDEN,
        draft_layers: tuple[int, ...] = (FINAL_LAYER,),
        attend: Attend | None = None,
    ) -> None:
        self.sizes = sizes
        self.attend = attend_plainly if attend is None else attend
        dtype: torch.dtype = getattr(torch, sizes.dtype)
        generator = torch.Generator().manual_seed(seed)

        def matrix(rows: int, columns: int) -> Tensor:
            weights = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
            return (weights / math.sqrt(rows)).to(device, dtype)

        def layer() -> Layer:
            width, keys = sizes.hidden, sizes.num_kv_heads * sizes.head_dim
            return Layer(
                query=matrix(width, width) * 2,
                key=matrix(width, keys) * 2,
                value=matrix(width, keys),
                output=matrix(width, width) * sizes.context,
                up=matrix(width, 2 * width),
                down=matrix(2 * width, width),
            )

        self.embedding = matrix(sizes.vocab_size, sizes.hidden) * math.sqrt(sizes.vocab_size)
        self.target = [layer() for _ in range(sizes.num_target_layers)]
        self.draft = self.target[-sizes.num_draft_layers :]
        self.head = matrix(sizes.hidden, sizes.vocab_size)
        rates = torch.arange(sizes.head_dim // 2, dtype=torch.float64, device=device)
        self.frequencies = 100.0 ** (-2 * rates / sizes.head_dim)
        row_shape = (sizes.num_kv_heads, sizes.head_dim)
        layers = ((Side.TARGET, sizes.num_target_layers), (Side.DRAFT, sizes.num_draft_layers))
        self.description = ModelDescription(
            name="Transformer",
            arrays="torch",
            vocab_size=sizes.vocab_size,
            kv_components=tuple(
                KVComponent(name, row_shape, sizes.dtype, count, side) for side, count in layers for name in ("k", "v")
            ),
            hidden_width=sizes.hidden,
            hidden_dtype=sizes.dtype,
            draft_source=draft_source,
            draft_hidden_width=sizes.hidden,
            draft_layers=draft_layers,
            auxiliary_layers=tuple(range(sizes.num_target_layers)),
        )

    def prefill(self, batch: TargetBatch[Tensor], kv: KV, states: KV) -> TargetOutput[Tensor]:
        """Run chunks of prompts."""
        return self._run_target(batch, kv)

    def verify(self, batch: TargetBatch[Tensor], kv: KV, states: KV, scratch: KV) -> TargetOutput[Tensor]:
        """Run one tree a request."""
        return self._run_target(batch, kv)

    def draft_step(self, batch: DraftStepBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Run the draft over one token a beam."""
        hidden = self._run_draft(batch, kv, listed(batch.keys, batch.input_ids.shape[0]))
        return DraftOutput(self._probabilities(hidden), self._carried(hidden))

    def draft_extend(self, batch: DraftExtendBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Run the draft over what it has to catch up with."""
        trees = paged(batch.keys, batch.input_ids.shape[0], None)
        hidden = self._run_draft(batch, kv, trees).index_select(0, batch.select)
        return DraftOutput(self._probabilities(hidden), self._carried(hidden))

    def _run_target(self, batch: TargetBatch[Tensor], kv: KV) -> TargetOutput[Tensor]:
        trees = paged(batch.keys, batch.input_ids.shape[0], batch.tree_mask)
        hidden = self.embedding.index_select(0, batch.input_ids)
        after = {}
        for number, layer in enumerate(self.target):
            buffers = kv["k"][number], kv["v"][number]
            hidden = self._run_layer(layer, hidden, batch.positions, batch.out_cache_loc, buffers, trees)
            after[number] = hidden
        after[FINAL_LAYER] = hidden
        chosen = hidden if batch.select is None else hidden.index_select(0, batch.select)
        asked = [after[number] for number in batch.hidden_layers]
        logits = normed(chosen) @ self.head
        logits = logits.float() if logits.dtype is torch.float64 else logits
        return TargetOutput(logits, torch.cat(asked, dim=1) if asked else None)

    def _run_draft(self, batch: DraftStepBatch[Tensor] | DraftExtendBatch[Tensor], kv: KV, trees: Trees) -> Tensor:
        hidden = self.embedding.index_select(0, batch.input_ids)
        if batch.hidden_states is not None:
            # NOTE: when it catches up it gets several layers of the target, while it drafts its own one; a real draft
            # learns a projection, this one takes the last.
            hidden = hidden + 0.3 * normed(batch.hidden_states[:, -self.sizes.hidden :])
        for number, layer in enumerate(self.draft):
            buffers = kv["k"][number], kv["v"][number]
            hidden = self._run_layer(layer, hidden, batch.positions, batch.out_cache_loc, buffers, trees)
        return hidden

    def _run_layer(
        self,
        layer: Layer,
        hidden: Tensor,
        positions: Tensor,
        out_cache_loc: Tensor,
        buffers: tuple[Tensor, Tensor],
        trees: Trees,
    ) -> Tensor:
        """Write keys and values of the new tokens, attend to what each may see, and run the matrices after it."""
        sizes, x = self.sizes, normed(hidden)
        tokens = x.shape[0]
        query = self._rotate((x @ layer.query).view(tokens, sizes.num_heads, sizes.head_dim), positions)
        key = self._rotate((x @ layer.key).view(tokens, sizes.num_kv_heads, sizes.head_dim), positions)
        buffers[0].index_copy_(0, out_cache_loc, key)
        buffers[1].index_copy_(0, out_cache_loc, (x @ layer.value).view_as(key))
        attended = self.attend(query, *buffers, trees).reshape(tokens, sizes.hidden)
        hidden = hidden + attended @ layer.output
        return hidden + torch.tanh(normed(hidden) @ layer.up) @ layer.down

    def _rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Turn each pair of a head's entries by its position."""
        angles = positions[:, None] * self.frequencies
        cosine, sine = (part.to(heads.dtype)[:, None, :] for part in (angles.cos(), angles.sin()))
        left, right = heads.chunk(2, dim=-1)
        return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)

    def _probabilities(self, hidden: Tensor) -> Tensor:
        return (normed(hidden) @ self.head).float().softmax(dim=-1)

    def _carried(self, hidden: Tensor) -> Tensor | None:
        return hidden if self.description.has_draft_hidden else None


def normed(hidden: Tensor) -> Tensor:
    """Return hidden states of unit size."""
    return hidden * torch.rsqrt((hidden * hidden).mean(dim=-1, keepdim=True) + 1e-6)


def paged(keys: PagedKeys[Tensor], num_tokens: int, tree_mask: Tensor | None) -> Trees:
    """Return a tree a request, or without a mask a tree of one node for each token, whose last key it is.

    All shapes are those of the batch, so that a CUDA graph can be captured.
    """
    if tree_mask is not None:
        num_nodes = tree_mask.shape[0] // num_tokens if num_tokens else 1
        return Trees(keys.page_table, keys.cache_seqlens, tree_mask, num_nodes, keys.page_size)
    token = torch.arange(num_tokens, dtype=torch.int32, device=keys.page_table.device)
    request = torch.searchsorted(keys.cu_seqlens_q, token, right=True) - 1
    num_later = keys.cu_seqlens_q[1:].index_select(0, request) - token - 1
    lengths = keys.cache_seqlens.index_select(0, request) - num_later
    return alone(keys.page_table.index_select(0, request), lengths, keys.page_size)


def listed(keys: ListedKeys[Tensor], num_tokens: int) -> Trees:
    """Return a tree of one node for each token, whose keys are listed."""
    place = torch.arange(keys.max_num_keys, device=keys.kv_indices.device)
    begin, end = keys.kv_indptr[:num_tokens], keys.kv_indptr[1 : num_tokens + 1]
    index = begin[:, None] + place
    slots = keys.kv_indices[index.clamp(max=keys.kv_indices.shape[0] - 1)].where(index < end[:, None], 0)
    return alone(slots, end - begin, 1)


def alone(page_table: Tensor, lengths: Tensor, page_size: int) -> Trees:
    """Return trees of one node."""
    return Trees(page_table, lengths, torch.ones_like(lengths, dtype=torch.bool), 1, page_size)


def attend_in_kernels(query: Tensor, keys: Tensor, values: Tensor, trees: Trees) -> Tensor:
    """Attend by the operation, which reads the pages where they lie."""
    return gpu.tree_attention(
        query, keys, values, trees.lengths, trees.page_table, trees.mask, None, trees.num_nodes, trees.page_size
    ).attention


def attend_plainly(query: Tensor, keys: Tensor, values: Tensor, trees: Trees) -> Tensor:
    """Attend in torch, which gathers all keys and values first; float64 serves as well."""
    num_trees, num_nodes, page_size = trees.lengths.shape[0], trees.num_nodes, trees.page_size
    group, dim = query.shape[1] // keys.shape[1], query.shape[2]
    position = torch.arange(trees.page_table.shape[1] * page_size, device=query.device)
    slots = trees.page_table[:, position // page_size].long() * page_size + position % page_size  # [tree, key]
    node = position - (trees.lengths[:, None] - num_nodes)
    mask = trees.mask.view(num_trees, num_nodes, num_nodes)
    window = mask.gather(2, node.clamp(0, num_nodes - 1)[:, None].expand(-1, num_nodes, -1))
    visible = (node < 0)[:, None] | ((node >= 0) & (node < num_nodes))[:, None] & window  # [tree, node, key]
    keys, values = (buffer[slots].repeat_interleave(group, dim=2) for buffer in (keys, values))
    queries = query.view(num_trees, num_nodes, *query.shape[1:])
    scores = torch.einsum("tnhd,tkhd->thnk", queries, keys) / math.sqrt(dim)
    weights = scores.masked_fill(~visible[:, None], -math.inf).softmax(dim=-1)
    return torch.einsum("thnk,tkhd->tnhd", weights, values).reshape(query.shape)
