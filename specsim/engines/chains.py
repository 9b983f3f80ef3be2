"""Ragged chains, as engines take them: one length at a time, and nothing after the end of a draft."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from specsim.counts import count_tokens

if TYPE_CHECKING:
    import torch

Outputs = tuple["torch.Tensor", "torch.Tensor"]
"""Output tokens and the number of accepted drafts, for an adapter to write."""


@dataclass(frozen=True)
class Chain:
    """One request of a batch: where its drafts start, how many rows they have, how many there are before a -1."""

    request: int
    first: int
    num_rows: int
    num_drafts: int

    @property
    def first_target_row(self) -> int:
        """The first of its rows of the target, of which every request has one more than drafts."""
        return self.first + self.request


@dataclass(frozen=True)
class Chains:
    """The arguments of one call of ``chain_speculative_sampling``, in the order and by the names of the operation."""

    draft_tokens: "torch.Tensor"
    cu_num_drafts: "torch.Tensor"
    uniform_samples: "torch.Tensor"
    uniform_samples_for_final_sampling: "torch.Tensor"
    draft_probs: "torch.Tensor | None"
    target_probs: "torch.Tensor"
    max_num_drafts: int

    @property
    def output_shape(self) -> tuple[int, int]:
        """The rows of output tokens: one a request, with room for all drafts and one more."""
        return len(self.cu_num_drafts[1:]), count_tokens(self.max_num_drafts)

    def requests(self) -> list[Chain]:
        """Return what there is of each request."""
        return chains_of(self.draft_tokens, self.cu_num_drafts)

    def laws(self) -> "torch.Tensor":
        """Return the laws of the drafts; each is certain where there are none."""
        return laws_of(self.draft_tokens, self.draft_probs, self.target_probs)


def chains_of(draft_tokens: "torch.Tensor", cu_num_drafts: "torch.Tensor") -> list[Chain]:
    """Return the requests of a ragged batch."""
    tokens = draft_tokens.tolist()
    found = []
    for request, (first, last) in enumerate(pairwise(cu_num_drafts.tolist())):
        drafted = tokens[first:last]
        found.append(Chain(request, first, last - first, drafted.index(-1) if -1 in drafted else len(drafted)))
    return found


@dataclass(frozen=True)
class Equals:
    """The requests of a batch that have one number of drafts, and where their drafts and the target's rows are."""

    num_drafts: int
    requests: "torch.Tensor"
    drafts: "torch.Tensor"
    target_rows: "torch.Tensor"


def equals_of(draft_tokens: "torch.Tensor", cu_num_drafts: "torch.Tensor") -> Iterator[Equals]:
    """Yield every number of drafts that occurs in a ragged batch, with the requests that have it."""
    import torch

    chains = chains_of(draft_tokens, cu_num_drafts)
    for num_drafts in sorted({chain.num_drafts for chain in chains}):
        members = [chain.request for chain in chains if chain.num_drafts == num_drafts]
        requests = torch.tensor(members, device=draft_tokens.device)
        columns = torch.arange(count_tokens(num_drafts), device=draft_tokens.device)
        first = cu_num_drafts[requests].long()[:, None]
        yield Equals(num_drafts, requests, first + columns[:-1], first + requests[:, None] + columns)


def laws_of(
    draft_tokens: "torch.Tensor", draft_probs: "torch.Tensor | None", target_probs: "torch.Tensor"
) -> "torch.Tensor":
    """Return the laws of the drafts; each is certain where there are none."""
    import torch

    if draft_probs is not None:
        return draft_probs
    return torch.nn.functional.one_hot(draft_tokens.clamp(min=0), target_probs.shape[1]).float()


def draw(rows: "torch.Tensor", coins: "torch.Tensor") -> "torch.Tensor":
    """Return of each row the first token whose running sum exceeds the coin's share of the whole."""
    running = rows.double().cumsum(1)
    return (running > coins.double()[:, None] * running[:, -1:]).int().argmax(1)


def sampler_of(sample: Callable[[Chains, Outputs], None]) -> Callable[..., Outputs]:
    """Return the operation: it allocates outputs of -1 and of 0, and lets an adapter write them."""

    def chain_speculative_sampling(*arguments: Any, **named: Any) -> Outputs:
        chains = Chains(*arguments, **named)
        output_tokens = chains.cu_num_drafts.new_full(chains.output_shape, -1)
        out = output_tokens, output_tokens.new_zeros(len(output_tokens))
        sample(chains, out)
        return out

    return chain_speculative_sampling


def sampler_with_outputs_of(sample: Callable[[Chains, Outputs], None]) -> Callable[..., None]:
    """Return the operation for a caller who allocates the outputs, which may be larger than the call."""

    def chain_speculative_sampling_out(*arguments: Any, out: Outputs, **named: Any) -> None:
        chains = Chains(*arguments, **named)
        height, width = chains.output_shape
        written = out[0][:height, :width], out[1][:height]
        written[0].fill_(-1)
        sample(chains, written)

    return chain_speculative_sampling_out
