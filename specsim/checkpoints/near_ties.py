"""Greedy outputs beside the model's own decoding, and what of their differences is rounding.

The target decodes alone as ``generate`` does: one text, its own attention, its own cache. Forwards over other shapes
round otherwise, so that where two logits nearly tie another token may be chosen, and the text goes on from there.
Such a choice passes if the exact logits, those of the same weights in a wider type, have it below the best by at most
twice what rounding takes from such a distance in the model's own type; it is counted.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from specsim.checkpoints.causal_lm import CausalLM, load_network, widened
from specsim.simulation.requests import Request

NUM_RIVALS = 16
"""Tokens beside the best whose distances from it say what rounding does to such a distance."""


class NearTie(NamedTuple):
    """A token that is not the model's own choice, and nearly ties with it.

    ``margin`` is how far its exact logit is below the best one, ``allowed`` how far rounding explains.
    """

    request_id: int
    place: int
    margin: float
    allowed: float


class OwnDecoding:
    """One text that the model decodes by itself, token by token."""

    def __init__(self, model: CausalLM) -> None:
        self._model = model
        self._cache = DynamicCache(config=model.folder.config)
        self._pending: list[int] = []

    def append(self, token: int) -> None:
        """Add one token."""
        self._pending.append(token)

    def next_logits(self) -> list[float]:
        """Return the logits of the token that comes next."""
        ids = torch.tensor([self._pending], dtype=torch.int64, device=self._model.device)
        with self._model.by_itself() as network:
            # NOTE: releases of transformers name it by either word.
            name = "cache" if "cache" in inspect.signature(network.forward).parameters else "past_key_values"
            logits = network(input_ids=ids, use_cache=True, **{name: self._cache}).logits[0, -1]
        self._pending = []
        row: list[float] = widened(logits).tolist()
        return row


@dataclass
class Judge:
    """Starts what each greedy request is compared with, and counts its near ties.

    Parameters
    ----------
    model : CausalLM
        The target.
    """

    model: CausalLM

    def __post_init__(self) -> None:
        self.near_ties: list[NearTie] = []

    def start(self, request: Request) -> "Steered":
        """Return the model's own decoding, which follows a request's output where that nearly ties."""
        return Steered(self, request)

    def figures(self) -> dict[str, Any]:
        """Return how many near ties there were, and the farthest of them."""
        farthest = max(self.near_ties, key=lambda one: one.margin, default=None)
        return {
            "count": len(self.near_ties),
            "largest_margin": 0.0 if farthest is None else farthest.margin,
            "allowed": None if farthest is None else farthest.allowed,
        }

    @cached_property
    def _exact(self) -> Any:
        wider = torch.float64 if self.model.dtype is torch.float32 else torch.float32
        network = load_network(self.model.folder, self.model.device, wider)
        network.set_attn_implementation(self.model.own_attention)
        return network

    def distances(self, prompt: Sequence[int], output: Sequence[int]) -> tuple[Tensor, float]:
        """Return how far every exact logit of an output is below the best [place, vocab], and what rounding explains.

        Parameters
        ----------
        prompt, output : sequence of int
            A text; a place of the output has the logits of what stands before it.
        """
        text, begin = [*prompt, *output][:-1], len(prompt) - 1
        ids = torch.tensor([text], dtype=torch.int64, device=self.model.device)
        exact = self._exact(input_ids=ids, use_cache=False).logits[0, begin:].double()
        rounded = self.model.own_logits(text)[begin:].double()
        best, rivals = exact.argmax(1, keepdim=True), exact.topk(min(NUM_RIVALS + 1, exact.shape[1]), dim=1).indices
        below, rounded_below = (one.gather(1, best) - one for one in (exact, rounded))
        return below, 2 * float((rounded_below - below).gather(1, rivals).abs().max())


class Steered:
    """The model's own decoding of one request, which takes the request's token where it nearly ties with its own."""

    def __init__(self, judge: Judge, request: Request) -> None:
        self._judge, self._request = judge, request
        self._own = OwnDecoding(judge.model)
        self._place = 0

    def append(self, token: int) -> None:
        """Add one token."""
        self._own.append(token)

    def next_logits(self) -> list[float]:
        """Return the logits of the token that comes next."""
        logits, place, output = self._own.next_logits(), self._place, self._request.output
        self._place += 1
        best = max(logits)
        if place >= len(output) or logits.index(best) == output[place]:
            return logits
        below, allowed = self._distances
        token, margin = output[place], float(below[place, output[place]])
        if margin <= allowed:
            self._judge.near_ties.append(NearTie(self._request.request_id, place, margin, allowed))
            logits[token] = best + 1 + abs(best)
        return logits

    @cached_property
    def _distances(self) -> tuple[Tensor, float]:
        return self._judge.distances(self._request.prompt, self._request.output)
