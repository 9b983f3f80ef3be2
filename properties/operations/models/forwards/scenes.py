"""Small decodes for the laws of the model: token sequences, the slots they lie in, and forwards over them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Array, Case, outputs_of
from specsim.properties.laws.links import depths_of
from specsim.properties.strategies.numbers import generators


@composite
def scenes(draw: st.DrawFn, min_requests: int = 1) -> Case:
    """Draw sequences of tokens, distinct slots for them with some to spare, and where they are cut."""
    num_requests = draw(st.integers(min_requests, 3))
    lengths = draw(st.lists(st.integers(2, 7), min_size=num_requests, max_size=num_requests))
    random = draw(generators())
    num_slots = sum(lengths) + draw(st.integers(8, 12))
    free = 1 + random.permutation(num_slots - 1)
    ends = np.cumsum(lengths)
    return {
        "tokens": [random.integers(0, 256, length) for length in lengths],
        "slots": [free[end - length : end] for length, end in zip(lengths, ends, strict=True)],
        "spare": free[ends[-1] :],
        "cuts": [draw(st.integers(1, length - 1)) for length in lengths],
        "num_slots": num_slots,
        "num_layers": draw(st.integers(1, 3)),
        "seed": draw(st.integers(0, 2**16)),
    }


@composite
def tree_scenes(draw: st.DrawFn) -> Case:
    """Draw a scene and a tree after its cut sequences: parents, tokens and slots of the nodes."""
    scene = draw(scenes())
    num_nodes = draw(st.integers(1, 5))
    num_requests = len(scene["tokens"])
    random = np.random.default_rng(scene["seed"])
    more = scene["num_slots"] + np.arange(num_requests * num_nodes)
    return {
        **scene,
        "num_slots": scene["num_slots"] + len(more),
        "parents": [[-1, *(random.integers(0, node) for node in range(1, num_nodes))] for _ in range(num_requests)],
        "node_tokens": [random.integers(0, 256, num_nodes) for _ in range(num_requests)],
        "node_slots": np.split(random.permutation(more), num_requests),
    }


def empty_pool(scene: Case, fill: int = 0) -> list[Array]:
    """Return K and V buffers of every layer, all entries alike."""
    return [np.full((scene["num_slots"], 4), fill, dtype=np.int64) for _ in range(2 * scene["num_layers"])]


def tokens_between(sequences: Sequence[Array], first: Sequence[int], last: Sequence[int]) -> Array:
    """Return positions ``first`` to ``last-1`` of each sequence, flat."""
    return np.concatenate([entries[start:end] for entries, start, end in zip(sequences, first, last, strict=True)])


def layout(slots: Sequence[Array], first: Sequence[int], last: Sequence[int]) -> Case:
    """Return positions, slots, page table and lengths of a causal forward over positions ``first`` to ``last-1``."""
    page_table = np.zeros((len(slots), max(map(len, slots))), dtype=np.int32)
    for request, entries in enumerate(slots):
        page_table[request, : len(entries)] = entries
    return {
        "positions": tokens_between([np.arange(len(entries)) for entries in slots], first, last),
        "out_cache_loc": tokens_between(slots, first, last),
        "page_table": page_table,
        "cache_seqlens": np.array(last, dtype=np.int32),
        "cu_seqlens_q": np.concatenate([[0], np.cumsum(np.subtract(last, first))]).astype(np.int32),
        "page_size": 1,
    }


def target_pass(
    backend: Backend, scene: Case, kv_buffers: Sequence[Array], first: Sequence[int], last: Sequence[int]
) -> dict[str, Any]:
    """Run the target over positions ``first`` to ``last-1`` of each sequence of the scene."""
    input_ids = tokens_between(scene["tokens"], first, last)
    asked = {"kv_buffers": kv_buffers, "input_ids": input_ids, "tree_mask": None, **layout(scene["slots"], first, last)}
    return outputs_of(backend, "target_forward", asked)


def prefill(backend: Backend, scene: Case, lengths: Sequence[int] | None = None) -> dict[str, Any]:
    """Run the target over the whole sequences, or over their first positions, from an empty pool."""
    ends = [len(tokens) for tokens in scene["tokens"]] if lengths is None else list(lengths)
    return target_pass(backend, scene, empty_pool(scene), [0] * len(ends), ends)


def tree_pass(backend: Backend, scene: Case, kv_buffers: Sequence[Array], squares: Array) -> Array:
    """Run the target over the tree of each request, which follows its cut sequence, under the given squares."""
    num_nodes = len(scene["node_tokens"][0])
    rows = [
        np.concatenate([slots[:cut], nodes])
        for slots, cut, nodes in zip(scene["slots"], scene["cuts"], scene["node_slots"], strict=True)
    ]
    input_ids, depths = np.concatenate(scene["node_tokens"]), [depths_of(parents) for parents in scene["parents"]]
    asked = {"kv_buffers": kv_buffers, "input_ids": input_ids, "tree_mask": squares.reshape(-1)}
    asked |= layout(rows, scene["cuts"], [cut + num_nodes for cut in scene["cuts"]])
    asked["positions"] = (np.array(scene["cuts"])[:, None] + depths).reshape(-1)
    hidden_states: Array = outputs_of(backend, "target_forward", asked)["hidden_states"]
    return hidden_states.reshape(len(rows), num_nodes, -1)


def draft_pass(
    backend: Backend, scene: Case, kv_buffers: list[Array], hidden_states: Array, first: list[int], last: list[int]
) -> Case:
    """Run the draft model over draft positions ``first`` to ``last-1``, each with the token of the next position."""
    input_ids = tokens_between([tokens[1:] for tokens in scene["tokens"]], first, last)
    asked = {"kv_buffers": kv_buffers, "input_ids": input_ids, "hidden_states": hidden_states}
    return outputs_of(backend, "draft_extend_forward", {**asked, **layout(scene["slots"], first, last)})


def split_rows(flat: Array, lengths: Sequence[int]) -> list[Array]:
    """Cut a flat array into the rows of each request."""
    return np.split(flat, np.cumsum(lengths)[:-1])
