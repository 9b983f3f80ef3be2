"""Runs of the documentation's transformer in graphs, judged token by token: choices may differ where logits nearly tie.

``python -m tests.gpu.worker.transformer_runs --help`` says how to run some at any size; without a GPU it needs
``TRITON_INTERPRET=1``.
"""

import argparse
import random
import time
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple
from unittest.mock import patch

import torch

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.simulated import SimulatedGraph
from specsim.gpu.switches import simulating_graphs
from specsim.gpu.worker.v2 import GpuWorker
from specsim.simulation.engine import Engine
from specsim.simulation.models.batches import PagedKeys, TargetBatch
from specsim.simulation.models.description import DraftSource
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from tests.specsim.simulation.models.examples import my_transformer

GRAPH = torch.cuda.CUDAGraph if DEVICE.type == "cuda" else SimulatedGraph
NUM_RIVALS = 16
"""Tokens beside the best whose distances from it say what rounding does to such a distance."""


class Comparison(NamedTuple):
    """How the tokens of a run compare with the exact choices, those of the same weights in float64 after its own texts.

    ``others`` of the ``tokens`` are not the exact choice. Of these, ``ties`` had its logit where the model's own type
    computes logits plainly. ``plain_others`` is how many choices of such plain logits are not the exact ones.
    ``largest`` is how far the exact logit of a token is below the best one at most, ``allowed`` twice what rounding
    takes from such a distance in the plain logits.
    """

    tokens: int
    others: int
    ties: int
    plain_others: int
    largest: float
    allowed: float

    @property
    def is_lossless(self):
        """Whether every token is the exact choice or nearly ties with it."""
        return self.largest <= self.allowed


@dataclass(frozen=True)
class Played:
    """A run to its end; ``iterations`` has how many requests each had, and how many graphs were replayed for them."""

    worker: GpuWorker
    finished: list
    iterations: list

    @property
    def accepted_per_verify(self):
        """Mean of accepted drafts a verify."""
        counts = [request.counters for request in self.finished]
        return sum(one.num_accepted_drafts for one in counts) / sum(one.num_verifies for one in counts)


def play(model, config, asked, max_batch, page_size=1, use_graphs=True):
    """Run requests on a worker of V2."""
    worker = GpuWorker(config, model, sizes_for(config, asked, max_batch, page_size), use_graphs=use_graphs)
    engine, iterations, replays = Engine(worker, max_batch), [], []
    launch, replay = worker.launch, GRAPH.replay

    def noting_replays(graph):
        replays.append(graph)
        return replay(graph)

    def noting_iterations(rows, *asked_for):
        before = len(replays)
        launch(rows, *asked_for)
        iterations.append((len(rows), len(replays) - before))

    for request in asked:
        engine.submit(request.fresh())
    with patch.object(GRAPH, "replay", noting_replays), patch.object(worker, "launch", noting_iterations):
        while engine.has_work:
            engine.step()
    return Played(worker, engine.scheduler.finished, iterations)


def in_float64(model):
    """Return a model with the same weights that computes in float64, plainly."""
    exact = plainly(model)
    exact.sizes = replace(model.sizes, dtype="float64")
    exact.embedding, exact.head = model.embedding.double(), model.head.double()
    exact.target = [
        my_transformer.Layer(**{name: one.double() for name, one in vars(layer).items()}) for layer in model.target
    ]
    return exact


def plainly(model):
    """Return the same model with attention in torch."""
    plain = copy(model)
    plain.attend = my_transformer.attend_plainly
    return plain


def logits_of(model, text):
    """Return the logits after every token of a text, from one prefill into caches of its own."""
    device, sizes, num = model.head.device, model.sizes, len(text)
    place = torch.arange(num, device=device)
    dtype, shape = getattr(torch, sizes.dtype), (num, sizes.num_kv_heads, sizes.head_dim)
    kv = {name: [torch.zeros(shape, dtype=dtype, device=device) for _ in model.target] for name in ("k", "v")}
    lengths, starts = (torch.tensor(one, dtype=torch.int32, device=device) for one in ([num], [0, num]))
    batch = TargetBatch(
        req_pool_indices=place[:1],
        input_ids=torch.tensor(text, device=device),
        positions=place,
        out_cache_loc=place,
        prefix_lens=place[:1],
        keys=PagedKeys(place.int()[None], lengths, starts, 1),
        tree_mask=None,
        parents=None,
        select=None,
        hidden_layers=(),
        is_sampled=False,
    )
    return model.prefill(batch, kv, {}).logits


def compare(model, finished):
    """Compare what requests output with the exact choices after what they had output before."""
    exact, plain = in_float64(model), plainly(model)
    numbers = []
    for request in finished:
        text, begin = [*request.prompt, *request.output][:-1], len(request.prompt) - 1
        chosen = torch.tensor(request.output, device=model.head.device)[:, None]
        precise, rounded = (logits_of(one, text)[begin:].double() for one in (exact, plain))
        best, rivals = precise.argmax(1, keepdim=True), precise.topk(NUM_RIVALS + 1, dim=1).indices
        below, plain_below = (one.gather(1, best) - one for one in (precise, rounded))
        is_other, is_plain_other = chosen != best, rounded.argmax(1, keepdim=True) != best
        numbers.append(
            Comparison(
                tokens=len(chosen),
                others=int(is_other.sum()),
                ties=int((is_other & (plain_below.gather(1, chosen) == 0)).sum()),
                plain_others=int(is_plain_other.sum()),
                largest=float(below.gather(1, chosen).max()),
                allowed=2 * float((plain_below - below).gather(1, rivals).abs().max()),
            )
        )
    by_field = list(zip(*numbers, strict=True))
    return Comparison(*map(sum, by_field[:4]), *map(max, by_field[4:]))


def requests(number, vocab_size, prompt, new_tokens, seed=0):
    """Return requests with prompts of up to so many tokens that end one after another."""
    drawn = random.Random(seed)
    return [
        Request(one, [drawn.randrange(vocab_size) for _ in range(1 + drawn.randrange(prompt))], new_tokens + one)
        for one in range(number)
    ]


def main():
    """Run what the arguments say on pages of every size that they list, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default, what in (
        ("vocab", 32_000, "tokens of the vocabulary"),
        ("hidden", 4096, "width of a hidden state"),
        ("heads", 32, "query heads"),
        ("kv-heads", 8, "heads of keys and values"),
        ("layers", 3, "layers of the target, of which the draft has the last two"),
        ("requests", 72, "requests in all"),
        ("max-batch", 64, "requests that run together at most"),
        ("prompt", 200, "tokens of the longest prompt"),
        ("new-tokens", 8, "tokens that the first request outputs; each has one more than the one before"),
        ("topk", 4, "branches of a step"),
        ("steps", 3, "draft steps"),
        ("nodes", 8, "nodes of a tree"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=what)
    parser.add_argument("--dtype", default="bfloat16", help="element type of weights, keys and values")
    parser.add_argument("--page-sizes", type=int, nargs="+", default=[1, 16], help="slots of a page")
    parser.add_argument("--source", choices=["HIDDEN", "TOKENS"], default="HIDDEN", help="what the draft consumes")
    given = parser.parse_args()
    sizes = my_transformer.Sizes(
        given.vocab, given.hidden, given.heads, given.kv_heads, given.layers, 2, context=0.3, dtype=given.dtype
    )
    model = my_transformer.Transformer(
        sizes, 7, DEVICE, DraftSource[given.source], attend=my_transformer.attend_in_kernels
    )
    config, losses = SpecConfig(given.topk, given.steps, given.nodes), 0
    asked = requests(given.requests, given.vocab, given.prompt, given.new_tokens)
    for page_size in given.page_sizes:
        begun = time.perf_counter()
        with simulating_graphs():
            played = play(model, config, asked, given.max_batch, page_size)
        seconds = time.perf_counter() - begun
        found = compare(model, played.finished)
        batches, replays = ({one[place] for one in played.iterations} for place in (0, 1))
        print(
            f"pages of {page_size}: {'lossless' if found.is_lossless else 'LOSES'}, {found}, "
            f"{len(played.iterations)} iterations of {min(batches)} to {max(batches)} requests ({len(batches)} sizes), "
            f"graphs an iteration {replays}, {played.accepted_per_verify:.2f} drafts accepted, {seconds:.1f} s",
            flush=True,
        )
        losses += not found.is_lossless or replays != {1}
        del played
    raise SystemExit(losses)


if __name__ == "__main__":
    main()
