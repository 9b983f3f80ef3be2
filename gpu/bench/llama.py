"""A random Llama and a small draft that agrees with it as often as one likes, which fit the Model protocol.

All matrices are multiplied and all keys read as in a trained model, so that times are those of one of its size. Which
token is chosen is dialled: logits of the target get a peak at the successor of a token, those of the draft peaks at a
few candidates. The successor is the first of these with the chance of ``agreement``, and so on among those that follow.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specsim import gpu
from specsim.gpu.models.trees import Trees, listed, paged
from specsim.simulation.models.batches import (
    DraftExtendBatch,
    DraftOutput,
    DraftStepBatch,
    TargetBatch,
    TargetOutput,
)
from specsim.simulation.models.description import DraftSource, KVComponent, ModelDescription, Side

KV = Mapping[str, Sequence[Tensor]]

NUM_CANDIDATES = 16
PEAK = 40.0
"""Logit of the target's choice; the largest of the others is about 5."""

DRAFT_PEAK, DRAFT_SCALE = 6.0, 0.1
"""How far the draft's candidates stand out of all others together, and what its own logits are multiplied by."""


@dataclass(frozen=True)
class LlamaSizes:
    """Layers, widths and heads of one side."""

    num_layers: int
    hidden: int
    num_heads: int
    num_kv_heads: int
    feed_forward: int

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden // self.num_heads


TARGET_OF_1B = LlamaSizes(num_layers=16, hidden=2048, num_heads=32, num_kv_heads=8, feed_forward=8192)
"""As Llama 3.2 of 1 billion parameters."""

SMALL_DRAFT = LlamaSizes(num_layers=2, hidden=512, num_heads=8, num_kv_heads=2, feed_forward=2048)
TOY = LlamaSizes(num_layers=1, hidden=16, num_heads=2, num_kv_heads=1, feed_forward=32)
VOCABULARY = 128_256


@dataclass(frozen=True)
class Layer:
    """Matrices of one layer; those that read the same rows lie side by side."""

    query_key_value: Tensor
    output: Tensor
    gate_up: Tensor
    down: Tensor


class Decoder:
    """The layers of one side, with an embedding and a head of its own."""

    def __init__(self, sizes: LlamaSizes, vocab_size: int, dtype: torch.dtype, generator: torch.Generator) -> None:
        self.sizes, device = sizes, generator.device

        def matrix(rows: int, columns: int) -> Tensor:
            weights = torch.randn(rows, columns, generator=generator, dtype=torch.float32, device=device)
            return (weights / math.sqrt(rows)).to(dtype)

        width, keys = sizes.hidden, sizes.num_kv_heads * sizes.head_dim
        self.embedding = matrix(vocab_size, width)
        self.head = matrix(width, vocab_size)
        self.layers = [
            Layer(
                matrix(width, width + 2 * keys),
                matrix(width, width),
                matrix(width, 2 * sizes.feed_forward),
                matrix(sizes.feed_forward, width),
            )
            for _ in range(sizes.num_layers)
        ]
        rates = torch.arange(sizes.head_dim // 2, dtype=torch.float32, device=device)
        self._frequencies = 500_000.0 ** (-2 * rates / sizes.head_dim)

    def hidden_states(self, input_ids: Tensor, positions: Tensor, slots: Tensor, kv: KV, trees: Trees) -> Tensor:
        """Write keys and values of new tokens, and return their hidden states after the last layer."""
        sizes = self.sizes
        angles = positions[:, None] * self._frequencies
        turns = tuple(part.to(self.embedding.dtype)[:, None, :] for part in (angles.cos(), angles.sin()))
        hidden = self.embedding.index_select(0, input_ids)
        for number, layer in enumerate(self.layers):
            keys, values = kv["k"][number], kv["v"][number]
            mixed = (normed(hidden) @ layer.query_key_value).view(len(input_ids), -1, sizes.head_dim)
            query, key, value = torch.split(mixed, [sizes.num_heads, sizes.num_kv_heads, sizes.num_kv_heads], dim=1)
            keys.index_copy_(0, slots, rotate(key, turns))
            values.index_copy_(0, slots, value)
            attended = attend(rotate(query, turns), keys, values, trees)
            hidden = hidden + attended.reshape(len(input_ids), sizes.hidden) @ layer.output
            gate, up = (normed(hidden) @ layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + (torch.nn.functional.silu(gate) * up) @ layer.down
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Return a row of the vocabulary for each hidden state."""
        return normed(hidden) @ self.head

    def components(self, side: Side, dtype: str) -> tuple[KVComponent, ...]:
        """Return what a slot holds."""
        shape = (self.sizes.num_kv_heads, self.sizes.head_dim)
        return tuple(KVComponent(name, shape, dtype, self.sizes.num_layers, side) for name in ("k", "v"))


class DialledLlama:
    """A target and a draft model of its own, which reads tokens alone.

    Parameters
    ----------
    agreement : float
        Chance, between 0 and 1, that the draft's first choice is the target's, independent from token to token.
    target, draft : LlamaSizes
        Sizes of both sides.
    vocab_size : int
        Tokens of both, at least ``NUM_CANDIDATES + 1``.
    dtype : str
        Of weights and KV.
    seed : int
        Of the weights.
    device : torch.device
        Where they lie.
    """

    def __init__(
        self,
        agreement: float,
        device: torch.device,
        target: LlamaSizes = TARGET_OF_1B,
        draft: LlamaSizes = SMALL_DRAFT,
        vocab_size: int = VOCABULARY,
        dtype: str = "bfloat16",
        seed: int = 0,
    ) -> None:
        generator = torch.Generator(device).manual_seed(seed)
        self._target, self._draft = (
            Decoder(sizes, vocab_size, getattr(torch, dtype), generator) for sizes in (target, draft)
        )
        self._successor, self._candidates = dialled(agreement, vocab_size, device)
        shares = [math.log(agreement) + rank * math.log1p(-agreement) for rank in range(NUM_CANDIDATES)]
        peak = math.log(vocab_size) + DRAFT_PEAK
        self._peaks = torch.tensor([peak + share for share in shares], device=device)
        self.description = ModelDescription(
            name=f"random Llama, agreement {agreement:g}",
            arrays="torch",
            vocab_size=vocab_size,
            kv_components=(
                *self._target.components(Side.TARGET, dtype),
                *self._draft.components(Side.DRAFT, dtype),
            ),
            hidden_width=target.hidden,
            hidden_dtype=dtype,
            draft_source=DraftSource.TOKENS,
        )

    def prefill(self, batch: TargetBatch[Tensor], kv: KV, states: KV) -> TargetOutput[Tensor]:
        """Run chunks of prompts."""
        return self._run_target(batch, kv)

    def verify(self, batch: TargetBatch[Tensor], kv: KV, states: KV, scratch: KV) -> TargetOutput[Tensor]:
        """Run one tree a request."""
        return self._run_target(batch, kv)

    def draft_step(self, batch: DraftStepBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Run the draft over one token a beam."""
        trees = listed(batch.keys, len(batch.input_ids))
        hidden = self._draft.hidden_states(batch.input_ids, batch.positions, batch.out_cache_loc, kv, trees)
        return DraftOutput(self._probabilities(hidden, batch.input_ids), None)

    def draft_extend(self, batch: DraftExtendBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Run the draft over what it has to catch up with."""
        trees = paged(batch.keys, len(batch.input_ids), None)
        hidden = self._draft.hidden_states(batch.input_ids, batch.positions, batch.out_cache_loc, kv, trees)
        last = batch.input_ids.index_select(0, batch.select)
        return DraftOutput(self._probabilities(hidden.index_select(0, batch.select), last), None)

    def _run_target(self, batch: TargetBatch[Tensor], kv: KV) -> TargetOutput[Tensor]:
        trees = paged(batch.keys, len(batch.input_ids), batch.tree_mask)
        hidden = self._target.hidden_states(batch.input_ids, batch.positions, batch.out_cache_loc, kv, trees)
        chosen, tokens = hidden, batch.input_ids
        if batch.select is not None:
            chosen, tokens = hidden.index_select(0, batch.select), tokens.index_select(0, batch.select)
        logits = self._target.logits(chosen)
        best = self._successor.index_select(0, tokens)[:, None]
        asked = torch.cat([hidden] * len(batch.hidden_layers), dim=1) if batch.hidden_layers else None
        return TargetOutput(logits.scatter_(1, best, PEAK), asked)

    def _probabilities(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        logits = self._draft.logits(hidden).float() * DRAFT_SCALE
        candidates = self._candidates.index_select(0, tokens)
        return logits.scatter_(1, candidates, self._peaks.expand(candidates.shape)).softmax(dim=-1)


def dialled(agreement: float, vocab_size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the successor of every token, and the draft's candidates after it, the likeliest first.

    Successors are one cycle through the vocabulary, so that no text repeats itself. The place of the successor among
    the candidates is a hash of the token: independent, and geometric in the agreement.

    Returns
    -------
    successor : int64 [vocab]
        What the target chooses.
    candidates : int64 [vocab, candidate]
        What the draft proposes.
    """
    token = torch.arange(vocab_size, dtype=torch.int64, device=device)
    step = next(step for step in range(int(vocab_size * 0.618), vocab_size) if math.gcd(step, vocab_size) == 1)
    successor = (token + step) % vocab_size
    hashed = (token * 0x9E3779B1) & 0xFFFFFFFF
    hashed = ((hashed ^ (hashed >> 15)) * 0x85EBCA6B) & 0xFFFFFFFF
    hashed = ((hashed ^ (hashed >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    left = 1 - ((hashed ^ (hashed >> 16)).double() + 0.5) / 2**32
    place = (left.log() / math.log1p(-agreement)).floor().clamp(max=NUM_CANDIDATES).long()
    rank = torch.arange(NUM_CANDIDATES, device=device)
    others = successor[:, None] + 1 + rank
    candidates = torch.where(rank == place[:, None], successor[:, None], others % vocab_size)
    return successor, candidates


def normed(hidden: Tensor) -> Tensor:
    """Return hidden states of unit size."""
    wide = hidden.float()
    return (wide * torch.rsqrt((wide * wide).mean(dim=-1, keepdim=True) + 1e-5)).to(hidden.dtype)


def rotate(heads: Tensor, turns: tuple[Tensor, ...]) -> Tensor:
    """Turn each pair of a head's entries by its position."""
    (cosine, sine), (left, right) = turns, heads.chunk(2, dim=-1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)


def attend(query: Tensor, keys: Tensor, values: Tensor, trees: Trees) -> Tensor:
    """Attend by the operation, which reads the pages where they lie."""
    return gpu.tree_attention(
        query, keys, values, trees.lengths, trees.page_table, trees.mask, None, trees.num_nodes, trees.page_size
    ).attention
