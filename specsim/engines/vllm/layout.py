"""Ragged chains as vLLM's second model runner lays them out: of each request a row for its root and each draft."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Layout:
    """The rows of a batch, as many as the target's logits have."""

    draft_tokens: "torch.Tensor"
    cu_num_drafts: "torch.Tensor"
    max_num_drafts: int

    @property
    def num_requests(self) -> int:
        """The requests of the batch."""
        return len(self.cu_num_drafts) - 1

    @cached_property
    def first_rows(self) -> "torch.Tensor":
        """Where the rows of each request start, and where the last of them end."""
        import torch

        requests = torch.arange(self.num_requests + 1, device=self.cu_num_drafts.device)
        return (self.cu_num_drafts.long() + requests).int()

    @cached_property
    def requests(self) -> "torch.Tensor":
        """The request of each row."""
        import torch

        numbers = torch.arange(self.num_requests, device=self.cu_num_drafts.device, dtype=torch.int32)
        return numbers.repeat_interleave(self.first_rows.diff())

    @cached_property
    def places(self) -> "torch.Tensor":
        """How many drafts of its request come before each row."""
        import torch

        rows = torch.arange(len(self.requests), device=self.cu_num_drafts.device, dtype=torch.int32)
        return rows - self.first_rows[self.requests]

    @cached_property
    def rows_of_drafts(self) -> "torch.Tensor":
        """The row by which each draft is judged."""
        import torch

        lengths = self.cu_num_drafts.diff()
        return torch.where(self.places < lengths[self.requests])[0]

    @cached_property
    def row_tokens(self) -> "torch.Tensor":
        """The token of each row: of the root, which is never read, or of a draft."""
        tokens = self.draft_tokens.new_zeros(len(self.requests))
        tokens[self.rows_of_drafts + 1] = self.draft_tokens
        return tokens

    def by_request(self, drafts: "torch.Tensor") -> "torch.Tensor":
        """Return rows of drafts with a block of the same length for each request."""
        rows = self.rows_of_drafts
        blocks = drafts.new_zeros((self.num_requests, self.max_num_drafts, drafts.shape[1]))
        blocks[self.requests[rows].long(), self.places[rows].long()] = drafts
        return blocks

    def on_rows(self, drafts: "torch.Tensor") -> "torch.Tensor":
        """Return what there is of each draft at its row, and 0 at the last row of each request."""
        spread = drafts.new_zeros((len(self.requests), *drafts.shape[1:]))
        spread[self.rows_of_drafts] = drafts
        return spread
