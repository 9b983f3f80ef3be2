"""A small transformer and its draft, written against the Model protocol alone: GQA, RoPE, paged KV, tree masks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

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
    """Sizes of both sides; ``context`` says how much of a hidden state comes from attention."""

    vocab_size: int = 32
    hidden: int = 32
    num_heads: int = 4
    num_kv_heads: int = 2
    num_target_layers: int = 2
    num_draft_layers: int = 2
    context: float = 1.0

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
    """

    def __init__(
        self,
        sizes: Sizes,
        seed: int,
        device: torch.device,
        draft_source: DraftSource = DraftSource.HIDDEN,
        draft_layers: tuple[int, ...] = (FINAL_LAYER,),
    ) -> None:
        self.sizes = sizes
        generator = torch.Generator().manual_seed(seed)

        def matrix(rows: int, columns: int) -> Tensor:
            weights = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
            return (weights / math.sqrt(rows)).to(device)

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
                KVComponent(name, row_shape, "float64", count, side) for side, count in layers for name in ("k", "v")
            ),
            hidden_width=sizes.hidden,
            hidden_dtype="float64",
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
        slots, visible = listed(batch.keys, batch.input_ids.shape[0])
        hidden = self._run_draft(batch, kv, slots, visible)
        return DraftOutput(self._probabilities(hidden), self._carried(hidden))

    def draft_extend(self, batch: DraftExtendBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Run the draft over what it has to catch up with."""
        slots, visible = paged(batch.keys, batch.input_ids.shape[0], None)
        hidden = self._run_draft(batch, kv, slots, visible).index_select(0, batch.select)
        return DraftOutput(self._probabilities(hidden), self._carried(hidden))

    def _run_target(self, batch: TargetBatch[Tensor], kv: KV) -> TargetOutput[Tensor]:
        slots, visible = paged(batch.keys, batch.input_ids.shape[0], batch.tree_mask)
        hidden = self.embedding.index_select(0, batch.input_ids)
        after = {}
        for number, layer in enumerate(self.target):
            buffers = kv["k"][number], kv["v"][number]
            hidden = self._run_layer(layer, hidden, batch.positions, batch.out_cache_loc, buffers, slots, visible)
            after[number] = hidden
        after[FINAL_LAYER] = hidden
        chosen = hidden if batch.select is None else hidden.index_select(0, batch.select)
        asked = [after[number] for number in batch.hidden_layers]
        return TargetOutput((normed(chosen) @ self.head).float(), torch.cat(asked, dim=1) if asked else None)

    def _run_draft(
        self, batch: DraftStepBatch[Tensor] | DraftExtendBatch[Tensor], kv: KV, slots: Tensor, visible: Tensor
    ) -> Tensor:
        hidden = self.embedding.index_select(0, batch.input_ids)
        if batch.hidden_states is not None:
            # NOTE: when it catches up it gets several layers of the target, while it drafts its own one; a real draft
            # learns a projection, this one takes the last.
            hidden = hidden + 0.3 * normed(batch.hidden_states[:, -self.sizes.hidden :])
        for number, layer in enumerate(self.draft):
            buffers = kv["k"][number], kv["v"][number]
            hidden = self._run_layer(layer, hidden, batch.positions, batch.out_cache_loc, buffers, slots, visible)
        return hidden

    def _run_layer(
        self,
        layer: Layer,
        hidden: Tensor,
        positions: Tensor,
        out_cache_loc: Tensor,
        buffers: tuple[Tensor, Tensor],
        slots: Tensor,
        visible: Tensor,
    ) -> Tensor:
        """Write keys and values of the new tokens, attend to what each may see, and run the matrices after it."""
        sizes, x = self.sizes, normed(hidden)
        tokens, group = x.shape[0], sizes.num_heads // sizes.num_kv_heads
        query = self._rotate((x @ layer.query).view(tokens, sizes.num_heads, sizes.head_dim), positions)
        key = self._rotate((x @ layer.key).view(tokens, sizes.num_kv_heads, sizes.head_dim), positions)
        buffers[0].index_copy_(0, out_cache_loc, key)
        buffers[1].index_copy_(0, out_cache_loc, (x @ layer.value).view_as(key))
        keys, values = (buffer[slots].repeat_interleave(group, dim=2) for buffer in buffers)  # [token, key, head, dim]
        scores = torch.einsum("thd,tkhd->thk", query, keys) / math.sqrt(sizes.head_dim)
        weights = scores.masked_fill(~visible[:, None, :], -math.inf).softmax(dim=-1)
        attended = torch.einsum("thk,tkhd->thd", weights, values).reshape(tokens, sizes.hidden)
        hidden = hidden + attended @ layer.output
        return hidden + torch.tanh(normed(hidden) @ layer.up) @ layer.down

    def _rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Turn each pair of a head's entries by its position."""
        angles = positions[:, None] * self.frequencies
        cosine, sine = angles.cos()[:, None, :], angles.sin()[:, None, :]
        left, right = heads.chunk(2, dim=-1)
        return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)

    def _probabilities(self, hidden: Tensor) -> Tensor:
        return (normed(hidden) @ self.head).softmax(dim=-1).float()

    def _carried(self, hidden: Tensor) -> Tensor | None:
        return hidden if self.description.has_draft_hidden else None


def normed(hidden: Tensor) -> Tensor:
    """Return hidden states of unit size."""
    return hidden * torch.rsqrt((hidden * hidden).mean(dim=-1, keepdim=True) + 1e-6)


def paged(keys: PagedKeys[Tensor], num_tokens: int, tree_mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the slot of every key of every token, and which of them it sees; both [token, key].

    All shapes are those of the batch, so that a CUDA graph can be captured.
    """
    device, starts = keys.page_table.device, keys.cu_seqlens_q.long()
    position = torch.arange(keys.page_table.shape[1] * keys.page_size, device=device)
    slots = keys.page_table[:, position // keys.page_size].long() * keys.page_size + position % keys.page_size
    token = torch.arange(num_tokens, device=device)
    request = torch.searchsorted(starts, token, right=True) - 1
    query = token - starts[request]
    first = (keys.cache_seqlens.long() - starts.diff())[request][:, None]
    among_new = position - first
    if tree_mask is None:
        visible = among_new <= query[:, None]
    else:
        num_nodes = tree_mask.shape[0] // max(num_tokens, 1)
        row = tree_mask.view(num_tokens, num_nodes)
        inside = (among_new >= 0) & (among_new < num_nodes)
        visible = (among_new < 0) | (inside & row.gather(1, among_new.clamp(0, num_nodes - 1)))
    return slots[request], visible


def listed(keys: ListedKeys[Tensor], num_tokens: int) -> tuple[Tensor, Tensor]:
    """Return the same for keys that are listed."""
    place = torch.arange(keys.max_num_keys, device=keys.kv_indices.device)
    begin, end = keys.kv_indptr[:num_tokens, None].long(), keys.kv_indptr[1:, None].long()
    index = begin + place
    slots = keys.kv_indices[index.clamp(max=keys.kv_indices.shape[0] - 1)].long()
    visible = index < end
    return slots.where(visible, 0), visible
