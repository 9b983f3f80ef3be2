"""Sampled verification at the sizes of production: small ones everywhere, large ones on a GPU.

The oracle computes the rows that a request's walk visits, and no others.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from specsim import gpu
from specsim.contracts.rounding import softmax_bound
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.blocks import INTERPRETED
from specsim.properties.strategies.arrays import seeded
from specsim.properties.strategies.topologies import tree_of_kind
from specsim.reference.closest import Closest, margin_of_filters
from specsim.reference.probabilities import distribution
from specsim.reference.walks import Acceptance, Coins, DraftTree, walk_tree
from specsim.topology import Topology

KINDS = ("random", "deep", "binary", "chain", "star")
FILTERS = (
    (1.0, 50, 0.95, 0.0),
    (0.7, 2**30, 0.9, 0.0),
    (1.3, 2**30, 1.0, 0.05),
    (1.0, 2**30, 1.0, 0.0),
    (0.6, 1, 1.0, 0.0),
    (0.0, 2**30, 1.0, 0.0),
    (1.0, 1000, 0.999, 0.001),
    (2.0, 7, 1.0, 0.0),
)


@dataclass(frozen=True)
class Scene:
    """Trees on the host, and logits, coins and sampling parameters of every request on the device."""

    tokens: np.ndarray
    next_token: np.ndarray
    next_sibling: np.ndarray
    logits: torch.Tensor
    coins: np.ndarray
    final_coins: np.ndarray
    filters: list[tuple[float, int, float, float]]
    num_steps: int

    @property
    def shape(self):
        """Requests and nodes."""
        return self.tokens.shape


def make_scene(num_requests, num_nodes, vocab, dtype, seed, num_steps=6):
    """Draw trees of several kinds, logits in which about two in three first children are likely, and all filters."""
    random = np.random.default_rng(seed)
    sources = [seeded(seed * 7919 + request + 1) for request in range(num_requests)]
    trees = [tree_of_kind(KINDS[i % len(KINDS)], num_nodes, source) for i, source in enumerate(sources)]
    next_token, next_sibling = (
        np.stack([tree.next_token for tree in trees]),
        np.stack([tree.next_sibling for tree in trees]),
    )
    tokens = random.integers(0, vocab, (num_requests, num_nodes))
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    logits = torch.empty((num_requests * num_nodes, vocab), dtype=dtype, device=DEVICE)
    logits.normal_(0, 2.0, generator=generator)
    favoured = (next_token >= 0) & (random.random(next_token.shape) < 0.7)
    rows = torch.as_tensor(np.flatnonzero(favoured.reshape(-1)), device=DEVICE)
    children = np.take_along_axis(tokens, np.maximum(next_token, 0), axis=1)[favoured]
    logits[rows, torch.as_tensor(children, device=DEVICE)] = 14.0
    return Scene(
        tokens=tokens,
        next_token=next_token,
        next_sibling=next_sibling,
        logits=logits,
        coins=random.integers(0, 2**24, (num_requests, num_nodes)).astype(np.float32) / np.float32(2**24),
        final_coins=random.integers(0, 2**24, num_requests).astype(np.float32) / np.float32(2**24),
        filters=[FILTERS[(i + seed) % len(FILTERS)] for i in range(num_requests)],
        num_steps=num_steps,
    )


def tree_arguments(scene):
    """Return what both forms of verification take."""
    num_requests, num_nodes = scene.shape
    return {
        "candidates": _device(scene.tokens),
        "retrieve_index": torch.arange(num_requests * num_nodes, device=DEVICE).view(num_requests, num_nodes),
        "retrieve_next_token": _device(scene.next_token),
        "retrieve_next_sibling": _device(scene.next_sibling),
    }


def device_arguments(scene):
    """Return the arguments of the sampled verification from logits."""
    columns = zip(*scene.filters, strict=True)
    names = ("temperature", "top_k", "top_p", "min_p")
    ones = torch.ones(len(scene.filters), device=DEVICE)
    return {
        **tree_arguments(scene),
        "uniform_samples": _device(scene.coins),
        "uniform_samples_for_final_sampling": _device(scene.final_coins),
        "logits": scene.logits,
        **{
            name: torch.tensor(column, dtype=torch.int32 if name == "top_k" else torch.float32, device=DEVICE)
            for name, column in zip(names, columns, strict=True)
        },
        "threshold_single": ones,
        "threshold_acc": ones,
        "num_steps": scene.num_steps,
    }


def sample(scene):
    """Run the kernels and return their outputs on the host."""
    return [output.cpu().numpy() for output in gpu.verify_tree_sampled_from_logits(**device_arguments(scene))]


def sample_from_probabilities(scene):
    """Run the composition of the kernels instead: distributions of all rows, then the walk."""
    num_requests, num_nodes = scene.shape
    columns = [torch.tensor(column, device=DEVICE) for column in zip(*scene.filters, strict=True)]
    ones = torch.ones(num_requests, device=DEVICE)
    target_probs = gpu.target_probabilities(
        scene.logits, columns[0].float(), columns[1].int(), columns[2].float(), columns[3].float(), num_nodes
    ).view(num_requests, num_nodes, -1)
    outputs = gpu.tree_speculative_sampling_target_only(
        **tree_arguments(scene),
        uniform_samples=_device(scene.coins),
        uniform_samples_for_final_sampling=_device(scene.final_coins),
        target_probs=target_probs,
        draft_probs=torch.zeros_like(target_probs),
        threshold_single=ones,
        threshold_acc=ones,
        num_steps=scene.num_steps,
    )
    return [output.cpu().numpy() for output in outputs]


def count_margin_cases(scene, outputs, requests):
    """Compare requests with the oracle; return how many differ where a decision is closer than rounding.

    Raises
    ------
    AssertionError
        A request differs and none of its decisions is that close.
    """
    predict, accept_index, num_accepted_drafts = outputs
    num_nodes, vocab = scene.shape[1], scene.logits.shape[1]
    num_close = 0
    for request in requests:
        expected, margin, bound = _oracle(scene, request, vocab)
        path = [int(node) - request * num_nodes for node in accept_index[request] if node >= 0]
        tokens = [int(predict[request * num_nodes + node]) for node in path]
        assert num_accepted_drafts[request] == len(path) - 1
        if (path, tokens) != (expected.path, expected.tokens):
            assert margin < bound, (
                f"request {request} with {scene.filters[request]} = {path}, {tokens}, "
                f"but should be {expected.path}, {expected.tokens} (margin {margin:.3g})"
            )
            num_close += 1
    return num_close


def _oracle(scene, request, vocab):
    num_nodes, filters = scene.shape[1], scene.filters[request]
    margins, largest, closest = [], 0.0, Closest()

    def row_of(node):
        nonlocal largest
        logits = scene.logits[request * num_nodes + node].float().cpu().numpy()
        row = distribution(logits, *filters)
        if filters[0] > 0:
            largest = max(largest, float((logits.max() - logits[row > 0].min()) / filters[0]))
        margins.append(margin_of_filters(logits, *filters))
        return row

    tree = Topology.from_links(scene.next_token[request], scene.next_sibling[request])
    walk = walk_tree(
        DraftTree(tree, scene.tokens[request].tolist(), scene.num_steps),
        Coins(scene.coins[request], float(scene.final_coins[request])),
        row_of,
        Acceptance(),
        closest.decisions,
    )
    return walk, min([closest.by_coin, *margins]), softmax_bound(vocab, largest)


def _device(values):
    return torch.as_tensor(values, device=DEVICE)


SMALL = [(3, 5, 2), (4, 8, 33), (2, 16, 1000)]
LARGE = [
    (1, 16, 152_064),
    (16, 16, 128_256),
    (64, 32, 128_256),
    (256, 8, 32_000),
    (256, 64, 2),
    (256, 16, 3),
    (128, 32, 257),
    (64, 64, 4_097),
    (200, 5, 50_257),
    (7, 130, 152_064),
]
DTYPES = [torch.bfloat16, torch.float32]
COMPARED = 64
"""Requests of a batch that are compared: the first and last half of them, or all of a smaller batch."""

on_gpu = pytest.mark.skipif(INTERPRETED, reason="needs a GPU: hours under the interpreter")


def compared(num_requests, most=COMPARED):
    half = most // 2
    return range(num_requests) if num_requests <= most else [*range(half), *range(num_requests - half, num_requests)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SMALL)
def test_small_batches(size, dtype):
    for seed in range(3):
        scene = make_scene(*size, dtype, seed)
        for run in (sample, sample_from_probabilities):
            assert count_margin_cases(scene, run(scene), compared(size[0])) == 0


@on_gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", LARGE)
def test_large_batches(size, dtype, capsys):
    scenes, close = 3, 0
    for seed in range(scenes):
        scene = make_scene(*size, dtype, seed)
        close += count_margin_cases(scene, sample(scene), compared(size[0]))
    total = scenes * len(compared(size[0]))
    with capsys.disabled():
        print(f"\n{size} {dtype}: {close} margin cases of {total} requests")
    assert close <= max(1, total // 100)


@on_gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_more_than_2_to_the_32_logits(dtype):
    num_requests, num_nodes, vocab = 256, 111, 152_064
    assert num_requests * num_nodes * vocab > 2**32
    scene = make_scene(num_requests, num_nodes, vocab, dtype, seed=1)
    assert count_margin_cases(scene, sample(scene), [0, 1, 254, 255]) <= 1


@on_gpu
def test_more_than_2_to_the_32_probabilities():
    scene = make_scene(256, 111, 152_064, torch.bfloat16, seed=2)
    assert count_margin_cases(scene, sample_from_probabilities(scene), [0, 1, 254, 255]) <= 1
    torch.cuda.empty_cache()


@on_gpu
def test_a_graph_replays_on_other_inputs():
    scenes = [make_scene(8, 16, 32_000, torch.bfloat16, seed) for seed in range(4)]
    static = device_arguments(scenes[0])
    gpu.verify_tree_sampled_from_logits(**static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = gpu.verify_tree_sampled_from_logits(**static)
    for scene in [*scenes, *scenes[::-1]]:
        for name, value in device_arguments(scene).items():
            if isinstance(value, torch.Tensor):
                static[name].copy_(value)
        graph.replay()
        for replayed, eager in zip(outputs, sample(scene), strict=True):
            assert np.array_equal(replayed.cpu().numpy(), eager)
