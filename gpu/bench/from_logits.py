"""Inputs of the operations from logits, the same acceptance composed of torch operations, and the bytes that a walk
cannot avoid reading.

Trees have five levels below the root. The target agrees with a path of drafts for a random number of levels, two on
average, and with no child after it; its other logits are normal. Chains have five drafts, each drawn from a row that is
the target's with noise, so that about two of them are accepted.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.counts import count_tokens
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.timing import CALLS_PER_GRAPH, Case, Latency, repeated, summary

VOCAB = 128_256
NUM_STEPS = 5
AGREEMENT = 0.7
SPREAD, BONUS, FLAT_BONUS = 2.0, 14.0, 8.0
LEVEL_SIZES = {16: (1, 4, 4, 3, 2, 2), 32: (1, 8, 8, 8, 4, 3)}
"""Nodes of every level of some trees; others have as many in each."""

TEMPERATURE, TOP_K, TOP_P = 0.8, 50, 0.95
EVERYTHING = 2**31 - 1
COPY_BANDWIDTH = 4.3e12
COMPOSITION_REPEATS = 10
SHAPES = ((1, 16, "319"), (16, 16, "942"), (64, 16, "3,509"), (64, 32, "6,874"))
GREEDY, SAMPLED = "verify_tree_greedy_from_logits", "verify_tree_sampled_from_logits"
CHAIN = "chain_speculative_sampling_from_logits"
CHAINS = ((1, "13"), (16, "37"), (64, "105"))
CHAIN_SPREAD, NOISE = 3.0, 0.7


def from_logits_cases() -> tuple[Case, ...]:
    """Return the shapes for which figures of today's engines are known, and the hard cases of the largest."""

    def case(operation: str, batch: int, nodes: int, kind: str, today: str, build: Any) -> Case:
        return Case(operation, f"{batch} requests, {nodes} nodes, {kind}", build, today, num_inputs=CALLS_PER_GRAPH)

    sampled = [
        case(SAMPLED, batch, nodes, "top-k 50, top-p 0.95", today, partial(sampled_inputs, batch, nodes))
        for batch, nodes, today in SHAPES
    ]
    greedy = [
        case(GREEDY, batch, nodes, "0.7 agreed a level", "-", partial(greedy_inputs, batch, nodes))
        for batch, nodes, _ in SHAPES
    ]
    batch, nodes, _ = SHAPES[-1]
    kinds: dict[str, dict[str, Any]] = {
        "every draft accepted": {"agreement": 1.0},
        "top-p 0.95 only": {"top_k": EVERYTHING},
        "temperature only": {"top_k": None, "top_p": None},
        "top-p 0.95 only, flat rows": {"top_k": EVERYTHING, "bonus": FLAT_BONUS},
    }
    hard = [
        case(SAMPLED, batch, nodes, kind, "-", partial(sampled_inputs, batch, nodes, **parameters))
        for kind, parameters in kinds.items()
    ]
    chains = [
        Case(
            CHAIN,
            f"{count} requests, {NUM_STEPS} drafts, temperature only",
            partial(chain_inputs, count),
            today,
            CALLS_PER_GRAPH,
        )
        for count, today in CHAINS
    ]
    return (*sampled, *hard, *greedy, *chains)


def measure_compositions() -> list[Latency]:
    """Time the torch compositions, and say how long the rows that the walks visit take to read once."""
    latencies = []
    for batch, nodes, _ in SHAPES:
        shape = f"{batch} requests, {nodes} nodes"
        for operation, build, compose in (
            (SAMPLED, sampled_inputs, compose_sampled),
            (GREEDY, greedy_inputs, compose_greedy),
        ):
            arguments = build(batch, nodes)
            times = repeated(partial(compose, arguments), COMPOSITION_REPEATS)
            latencies.append(Latency(f"{operation} composed in torch, single launches", shape, *summary(times), "-"))
            floors = []
            for _ in range(CALLS_PER_GRAPH):
                arguments = build(batch, nodes)
                num_accepted_drafts = vars(gpu)[operation](**arguments)[2]
                floors.append(visited_bytes(arguments, num_accepted_drafts) / COPY_BANDWIDTH * 1e6)
            mean = sum(floors) / len(floors)
            what = f"{operation}: reading its rows once at 4.3 TB/s"
            latencies.append(Latency(what, shape, mean, min(floors), max(floors), "-"))
    return latencies


@dataclass(frozen=True)
class Drafts:
    """Trees of a batch and what the target says of them.

    Parameters
    ----------
    parent, child, sibling : int64 [request, node]
        Links, -1 where there are none.
    candidates : int64 [request, node]
        A token of each node, every one once in its tree.
    choice : int64 [request, node]
        The target's choice at each node: along a path the token of its next node, elsewhere one that was not drafted.
    accept_index : int32 [request, draft+1]
        The path that the two agree on.
    """

    parent: Tensor
    child: Tensor
    sibling: Tensor
    candidates: Tensor
    choice: Tensor
    accept_index: Tensor


def drafts(batch: int, nodes: int, agreement: float = AGREEMENT, vocab: int = VOCAB) -> Drafts:
    """Draw random trees, and for how many levels the target agrees with a path to a deepest node."""
    parent, child, sibling = (torch.full((batch, nodes), -1, dtype=torch.int64) for _ in range(3))
    sizes = level_sizes(nodes)
    depth = len(sizes) - 1
    starts = [sum(sizes[:level]) for level in range(len(sizes))]
    for level in range(1, len(sizes)):
        drawn = torch.randint(sizes[level - 1], (batch, sizes[level]))
        parent[:, starts[level] : starts[level] + sizes[level]] = starts[level - 1] + drawn
    for node in range(nodes - 1, 0, -1):
        above = parent[:, node : node + 1]
        sibling[:, node : node + 1] = child.gather(1, above)
        child.scatter_(1, above, node)
    path = starts[-1] + torch.randint(sizes[-1], (batch, 1))
    for _ in range(depth):
        path = torch.cat([parent.gather(1, path[:, :1]), path], 1)
    candidates = torch.rand((batch, nodes * 64)).argsort(1)[:, :nodes] * max(1, vocab // (nodes * 64) - 1)
    is_agreed = (torch.rand((batch, depth)) < agreement).long().cumprod(1).bool()
    choice = torch.full((batch, nodes), vocab - 1)
    choice.scatter_(1, path[:, :-1], torch.where(is_agreed, candidates.gather(1, path[:, 1:]), vocab - 1))
    accept_index = torch.full((batch, min(NUM_STEPS + 1, nodes)), -1, dtype=torch.int32)
    accept_index[:, : depth + 1] = path + torch.arange(batch)[:, None] * nodes
    accept_index[:, 1 : depth + 1].masked_fill_(~is_agreed, -1)
    tensors = (parent, child, sibling, candidates, choice, accept_index)
    return Drafts(*[tensor.to(DEVICE) for tensor in tensors])


def level_sizes(nodes: int) -> tuple[int, ...]:
    """Return how many nodes each level of a tree has, the root first and at most five levels below it."""
    even = [(nodes - 1 + NUM_STEPS - level) // NUM_STEPS for level in range(1, NUM_STEPS + 1)]
    return LEVEL_SIZES.get(nodes, (1, *[size for size in even if size]))


def links_of(drawn: Drafts) -> dict[str, Any]:
    """Return trees as the walks take them."""
    return {
        "candidates": drawn.candidates,
        "retrieve_index": torch.arange(drawn.candidates.numel(), device=DEVICE).view_as(drawn.candidates),
        "retrieve_next_token": drawn.child,
        "retrieve_next_sibling": drawn.sibling,
        "num_steps": drawn.accept_index.shape[1] - 1,
    }


def logits_of(choice: Tensor, bonus: float = BONUS, vocab: int = VOCAB) -> Tensor:
    """Return bfloat16 logits of every node, of which one is large: that of the target's choice."""
    logits = torch.randn((choice.numel(), vocab), dtype=torch.bfloat16, device=DEVICE) * SPREAD
    return logits.scatter_(1, choice.view(-1, 1), bonus)


def greedy_inputs(batch: int, nodes: int, agreement: float = AGREEMENT, bonus: float = BONUS) -> dict[str, Any]:
    """Return trees, and bfloat16 logits of which a large one follows the path as long as the two agree."""
    drawn = drafts(batch, nodes, agreement)
    return {**links_of(drawn), "logits": logits_of(drawn.choice, bonus)}


def sampled_inputs(
    batch: int,
    nodes: int,
    agreement: float = AGREEMENT,
    top_k: int | None = TOP_K,
    top_p: float | None = TOP_P,
    bonus: float = BONUS,
) -> dict[str, Any]:
    """Return the same with coins, temperature, top-k and top-p; None leaves all filters out."""
    return {**greedy_inputs(batch, nodes, agreement, bonus), **sampling_of(batch, nodes, top_k, top_p)}


def sampling_of(batch: int, nodes: int, top_k: int | None = TOP_K, top_p: float | None = TOP_P) -> dict[str, Any]:
    """Return coins, a temperature, top-k and top-p of each request; None leaves all filters out."""

    def each(value: float) -> Tensor:
        return torch.full((batch,), value, device=DEVICE)

    if top_k is None or top_p is None:
        return {**sampling_of(batch, nodes), **dict.fromkeys(("top_k", "top_p", "min_p"))}

    return {
        "uniform_samples": torch.rand((batch, nodes), device=DEVICE),
        "uniform_samples_for_final_sampling": torch.rand(batch, device=DEVICE),
        "temperature": each(TEMPERATURE),
        "top_k": torch.full((batch,), top_k, dtype=torch.int32, device=DEVICE),
        "top_p": each(top_p),
        "min_p": each(0.0),
        "threshold_single": each(1.0),
        "threshold_acc": each(1.0),
    }


def chain_inputs(batch: int, vocab: int = VOCAB) -> dict[str, Any]:
    """Return chains of drafts that were drawn from bfloat16 logits near those of the target."""
    target = torch.randn((batch, NUM_STEPS + 1, vocab), device=DEVICE) * CHAIN_SPREAD
    noise = torch.randn((batch, NUM_STEPS, vocab), device=DEVICE) * NOISE
    draft_logits = (target[:, :-1] + noise).bfloat16().view(-1, vocab)
    temperature = torch.full((batch,), TEMPERATURE, device=DEVICE)
    return {
        "draft_tokens": (draft_logits.float() / TEMPERATURE).softmax(-1).multinomial(1).view(-1),
        "cu_num_drafts": torch.arange(0, batch * NUM_STEPS + 1, NUM_STEPS, dtype=torch.int32, device=DEVICE),
        "uniform_samples": torch.rand(batch * NUM_STEPS, device=DEVICE),
        "uniform_samples_for_final_sampling": torch.rand(batch, device=DEVICE),
        "draft_logits": draft_logits,
        "target_logits": target.bfloat16().view(-1, vocab),
        "temperature": temperature,
        **dict.fromkeys(("top_k", "top_p", "min_p")),
        "draft_temperature": temperature,
        "max_num_drafts": NUM_STEPS,
    }


def visited_bytes(arguments: dict[str, Any], num_accepted_drafts: Tensor) -> int:
    """Return the size of the rows that the walks visit: one for each token that they output."""
    logits = arguments["logits"]
    return int(count_tokens(num_accepted_drafts.long()).sum()) * logits.shape[1] * logits.element_size()


def compose_greedy(arguments: dict[str, Any]) -> Tensor:
    """Take the largest logit of every row, then walk; return the last tokens."""
    candidates = arguments["candidates"]
    choice = arguments["logits"].argmax(-1).view(candidates.shape)
    request = torch.arange(len(candidates), device=DEVICE)
    node = torch.zeros_like(request)
    for _ in range(NUM_STEPS):
        target = choice[request, node]
        child = arguments["retrieve_next_token"][request, node]
        for _ in range(max(LEVEL_SIZES[candidates.shape[1]]) - 1):
            is_other = (child >= 0) & (candidates[request, child] != target)
            child = torch.where(is_other, arguments["retrieve_next_sibling"][request, child], child)
        is_found = (child >= 0) & (candidates[request, child] == target)
        node = torch.where(is_found, child, node)
    return choice[request, node]


def compose_sampled(arguments: dict[str, Any]) -> Tensor:
    """Soften every row, filter it by sorting, then walk by chance and draw; return the last tokens."""
    candidates = arguments["candidates"]
    batch, nodes = candidates.shape
    temperature = arguments["temperature"].repeat_interleave(nodes)[:, None]
    shares, order = (arguments["logits"].float() / temperature).softmax(-1).sort(-1, descending=True)
    rank = torch.arange(shares.shape[1], device=DEVICE)[None, :]
    shares.masked_fill_(rank >= arguments["top_k"].repeat_interleave(nodes)[:, None], 0.0)
    shares /= shares.sum(-1, keepdim=True)
    before = shares.cumsum(-1) - shares
    shares.masked_fill_(before >= arguments["top_p"].repeat_interleave(nodes)[:, None], 0.0)
    shares /= shares.sum(-1, keepdim=True)
    probabilities = torch.empty_like(shares).scatter_(-1, order, shares).view(batch, nodes, -1)
    request = torch.arange(batch, device=DEVICE)
    node, rejected = torch.zeros_like(request), torch.zeros_like(probabilities[:, 0])
    for _ in range(NUM_STEPS):
        coin = arguments["uniform_samples"][request, node]
        mass, accepted = torch.zeros_like(coin), torch.full_like(node, -1)
        child = arguments["retrieve_next_token"][request, node]
        rejected.zero_()
        for _ in range(max(LEVEL_SIZES[nodes])):
            token = candidates[request, child]
            share = probabilities[request, node, token] * (child >= 0)
            mass += share
            accepted = torch.where((accepted < 0) & (child >= 0) & (coin < mass), child, accepted)
            rejected[request, token] = torch.where(accepted < 0, share, rejected[request, token])
            child = torch.where(child >= 0, arguments["retrieve_next_sibling"][request, child], child)
        rejected.masked_fill_((accepted >= 0)[:, None], 0.0)
        node = torch.where(accepted >= 0, accepted, node)
    residual = (probabilities[request, node] - rejected).clamp(min=0)
    prefix = residual.cumsum(-1)
    goal = arguments["uniform_samples_for_final_sampling"][:, None] * prefix[:, -1:]
    return torch.searchsorted(prefix, goal, right=True).clamp(max=prefix.shape[1] - 1)[:, 0]
