"""One iteration of an engine as inputs: what a batch holds after its drafts were verified, under the table's names.

Trees are random and the target agrees with a path for two levels on average; requests have rows of a map whose pages
lie in random order. What an operation reads under another form stands in ``specsim.gpu.bench.rows``.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from specsim.counts import ceil_to
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.from_logits import (
    AGREEMENT,
    BONUS,
    NUM_STEPS,
    Drafts,
    drafts,
    links_of,
    logits_of,
    sampling_of,
)
from specsim.gpu.bench.memory import page_map

NODES, TOPK, PAGE_SIZE = 16, 4, 64
HASH_VOCAB, TEXT_VOCAB, TEXT_BUCKETS = 1024, 256, 16_384
SHORTER = 16
"""Requests are shorter than the longest by up to one part in so many."""


@dataclass(frozen=True)
class EngineSizes:
    """Sizes of an engine and of its batch; trees have ``nodes`` nodes in up to five levels, and beams of ``topk``.

    ``kv_entry`` is one slot of K or V of a layer, ``state`` one recurrent state, of which ``state_layers`` layers have
    one. The toy models know a small vocabulary, whatever ``vocab`` is. ``agreement`` is how likely the target
    agrees with one more level of a path.
    """

    batch: int
    vocab: int = 128_256
    draft_vocab: int = 32_000
    hidden: int = 4096
    num_layers: int = 32
    length: int = 4096
    kv_entry: tuple[int, ...] = (8, 128)
    state: tuple[int, ...] = (32, 128, 128)
    state_layers: int = 4
    nodes: int = NODES
    topk: int = TOPK
    agreement: float = AGREEMENT


class Iteration:
    """The arrays of one iteration, each drawn when it is first asked for.

    Attributes are named like arguments of operations and have the form that most of these take.
    """

    seed = 7

    def __init__(self, sizes: EngineSizes) -> None:
        self.sizes = sizes
        self.batch = sizes.batch
        self.topk = sizes.topk
        self.num_draft_tokens = sizes.nodes
        self.num_steps = min(NUM_STEPS, sizes.nodes - 1)
        self.beams = sizes.batch * sizes.topk
        self.num_nodes = sizes.batch * sizes.nodes
        self.num_kept = sizes.batch * (self.num_steps + 1)
        """Tokens that a fixed-width extend computes."""

    # ------------------------------------------------------------ entries

    def ids(self, *shape: int, below: int | None = None, dtype: torch.dtype = torch.int64) -> Tensor:
        """Return random token ids, or other numbers below a bound."""
        return torch.randint(0, self.sizes.vocab if below is None else below, shape, dtype=dtype, device=DEVICE)

    def each(self, value: float, dtype: torch.dtype = torch.float32, count: int | None = None) -> Tensor:
        """Return one value a request, or so many."""
        return torch.full((self.batch if count is None else count,), value, dtype=dtype, device=DEVICE)

    def hidden(self, *shape: int) -> Tensor:
        """Return hidden states in bfloat16."""
        return torch.randn((*shape, self.sizes.hidden), device=DEVICE).bfloat16()

    def tags(self, num_tokens: int) -> Tensor:
        """Return hidden states of the toy models: a word a layer of the target, and the context."""
        return self.ids(num_tokens, self.sizes.num_layers + 1, below=2**32)

    def rows_of_logits(self, num_rows: int) -> Tensor:
        """Return random rows in float32."""
        return torch.randn((num_rows, self.sizes.vocab), device=DEVICE) * 3

    # ------------------------------------------------------------ trees and what the target says of them

    @cached_property
    def drafts(self) -> Drafts:
        """The trees."""
        return drafts(self.batch, self.num_draft_tokens, self.sizes.agreement, self.sizes.vocab)

    @cached_property
    def logits(self) -> Tensor:
        """Logits of every node in bfloat16."""
        return logits_of(self.drafts.choice, BONUS, self.sizes.vocab)

    @cached_property
    def probabilities(self) -> Tensor:
        """Probabilities of every node."""
        return (self.logits.float() / 0.8).softmax(-1)

    @cached_property
    def links(self) -> dict[str, Any]:
        """Trees as walks take them."""
        return links_of(self.drafts)

    @property
    def candidates(self) -> Tensor:
        """A token of each node."""
        return self.drafts.candidates

    @property
    def draft_token(self) -> Tensor:
        """The same in one row."""
        return self.drafts.candidates.view(-1)

    @property
    def sampling(self) -> dict[str, Any]:
        """Coins and parameters of a verify."""
        return sampling_of(self.batch, self.num_draft_tokens)

    @property
    def accept_index(self) -> Tensor:
        """The accepted paths."""
        return self.drafts.accept_index

    @cached_property
    def is_accepted(self) -> Tensor:
        """Which entries of the accepted paths are nodes."""
        return self.accept_index >= 0

    @cached_property
    def num_accepted_tokens(self) -> Tensor:
        """Accepted drafts and the bonus token of each request."""
        return self.is_accepted.sum(1, dtype=torch.int32)

    @property
    def num_accepted_drafts(self) -> Tensor:
        """Accepted drafts of each request."""
        return self.num_accepted_tokens - 1

    @cached_property
    def num_output(self) -> int:
        """Tokens that the batch outputs."""
        return int(self.num_accepted_tokens.sum())

    @property
    def accept_indices(self) -> Tensor:
        """The accepted nodes without padding."""
        return self.accept_index[self.is_accepted]

    @cached_property
    def predict(self) -> Tensor:
        """An output token of every node."""
        return self.drafts.choice.view(-1).int()

    @property
    def accept_tokens(self) -> Tensor:
        """The output tokens of each request."""
        return self.predict[self.accept_index.clamp(min=0).long()]

    @property
    def bonus_tokens(self) -> Tensor:
        """A token a request."""
        return self.ids(self.batch, dtype=torch.int32)

    @cached_property
    def ancestors(self) -> Tensor:
        """Which nodes each node sees, bool [request, node, node]."""
        mask = torch.eye(self.num_draft_tokens, dtype=torch.bool, device=DEVICE).repeat(self.batch, 1, 1)
        request = torch.arange(self.batch, device=DEVICE)
        for node in range(1, self.num_draft_tokens):
            mask[:, node] |= mask[request, self.drafts.parent[:, node]]
        return mask

    @property
    def tree_mask(self) -> Tensor:
        """The same in one row."""
        return self.ancestors.view(-1)

    @property
    def full_mask(self) -> Tensor:
        """The same with the prefix of each request before its window."""
        rows = []
        for square, length in zip(self.ancestors, self.seq_lens.tolist(), strict=True):
            rows.append(torch.cat([square.new_ones((self.num_draft_tokens, length)), square], 1).view(-1))
        return torch.cat(rows)

    # ------------------------------------------------------------ lengths, rows and slots

    @cached_property
    def seq_lens(self) -> Tensor:
        """Committed lengths: of one request the longest there is, of the others a little less."""
        length = self.sizes.length
        lengths = length - torch.randint(0, length // SHORTER + 1, (self.batch,), device=DEVICE)
        lengths[0] = length
        return lengths

    @cached_property
    def seq_lens_sum(self) -> int:
        """The sum of them."""
        return int(self.seq_lens.sum())

    @property
    def max_prefix_len(self) -> int:
        """The longest of them."""
        return self.sizes.length

    @property
    def max_seq_len_k(self) -> int:
        """The longest of them with a tree."""
        return self.sizes.length + self.num_draft_tokens

    @property
    def num_tokens(self) -> int:
        """Nodes of the batch."""
        return self.num_nodes

    @cached_property
    def req_pool_indices(self) -> Tensor:
        """A row of each request, in random order; row 0 is the dump."""
        return torch.randperm(self.batch, device=DEVICE) + 1

    @cached_property
    def req_to_token(self) -> Tensor:
        """The map, with room for the pages of every beam after the longest text, of the usual ones at least."""
        reserve = max(self.topk, TOPK) * ceil_to(NUM_STEPS + PAGE_SIZE, PAGE_SIZE) + PAGE_SIZE
        return page_map(self.batch + 1, self.sizes.length + reserve, PAGE_SIZE)

    @cached_property
    def table(self) -> Tensor:
        """The row of each request, up to the longest text with a tree."""
        return self.req_to_token[self.req_pool_indices, : self.max_seq_len_k]

    @property
    def num_slots(self) -> int:
        """Slots of a pool that the map names, the dump included."""
        return self.req_to_token.numel() + PAGE_SIZE

    def slots_after(self, count: int) -> Tensor:
        """Return the slots of the next positions of each request, one request after another."""
        positions = self.seq_lens[:, None] + torch.arange(count, device=DEVICE)
        return self.table.gather(1, positions).view(-1).long()

    def positions_after(self, count: int) -> Tensor:
        """Return the next positions of each request."""
        return (self.seq_lens[:, None] + torch.arange(count, device=DEVICE)).view(-1)

    @cached_property
    def out_cache_loc(self) -> Tensor:
        """The slots of all nodes."""
        return self.slots_after(self.num_draft_tokens)

    @property
    def evict_mask(self) -> Tensor:
        """Which nodes were not accepted."""
        mask = torch.ones(self.num_nodes, dtype=torch.bool, device=DEVICE)
        mask[self.accept_indices.long()] = False
        return mask

    def starts(self, count: int) -> Tensor:
        """Return where requests of so many tokens start, and where the last of them ends."""
        return torch.arange(self.batch + 1, dtype=torch.int32, device=DEVICE) * count

    def pairs(self, slots: Tensor) -> dict[str, Tensor]:
        """Return where accepted nodes lie and where they go, packed to the front of a tail of dump slots."""
        blocks = slots.view(self.batch, self.num_draft_tokens)
        sources, targets = torch.zeros((2, self.num_kept), dtype=torch.int64, device=DEVICE)
        sources[: self.num_output] = slots[self.accept_indices.long()]
        targets[: self.num_output] = blocks[:, : self.num_steps + 1][self.is_accepted]
        return {"target_slots": targets, "source_slots": sources}

    @cached_property
    def small_pool(self) -> Tensor:
        """Slots of all nodes in a pool that has no others but the dump, in random order."""
        return torch.randperm(self.num_nodes, device=DEVICE) + 1

    # ------------------------------------------------------------ the toy models

    def kv_words(self, num_layers: int) -> list[Tensor]:
        """Return K and V of layers of a toy model."""
        return [self.ids(self.num_slots, 4, below=2**31) for _ in range(2 * num_layers)]

    def beam_lists(self) -> dict[str, Tensor]:
        """Return the slots that each beam reads: those of its request's text."""
        lengths = self.seq_lens.repeat_interleave(self.topk)
        is_read = torch.arange(self.table.shape[1], device=DEVICE) < lengths[:, None]
        offsets = torch.zeros(self.beams + 1, dtype=torch.int32, device=DEVICE)
        offsets[1:] = lengths.cumsum(0)
        return {"kv_indices": self.table.repeat_interleave(self.topk, 0)[is_read], "kv_indptr": offsets}
