"""Example arguments of every operation, derived from the table: what is compiled ahead of time, and timed on the host.

Sizes of axes stand here; shapes, element types and bounds are the table's. Entries are in range and alike, so that
kernels run on them: trees without children, requests without tokens, probabilities of one half.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch

from specsim.contracts.axes import evaluate, names_of
from specsim.contracts.contract import ArraySpec, Contract, ScalarSpec
from specsim.gpu.launching.buffers import DTYPES, prepare
from specsim.gpu.launching.mode import launching
from specsim.gpu.launching.pointers import KVBuffers
from specsim.gpu.launching.records import record_of
from specsim.rejection import SpecRejection
from specsim.validation import check_structure

Sizes = Mapping[str, int]

PRODUCTION: Sizes = MappingProxyType(
    {
        **{
            "request": 64,
            "unfinished": 48,
            "node": 16,
            "topk": 4,
            "branch": 4,
            "step": 5,
            "draft": 5,
            "drafted": 320,
            "parent": 17,
        },
        **{"vocab": 128_256, "draft_vocab": 32_000, "hidden": 4096, "state": 32, "order": 4, "bucket": 4096},
        **{"row": 257, "column": 32_000, "k": 4, "position": 2048, "page": 2048, "slot": 1024, "page_size": 1},
        **{"token": 1024, "location": 1024, "pair": 384, "buffer": 8, "layer": 2, "index": 65_536},
        **{
            "head": 32,
            "kv_head": 8,
            "head_dim": 128,
            "place": 64,
            "interval": 256,
            "listed": 4,
            "top": 5,
            "kept": 3,
            "draft_layer": 1,
        },
        **{"recent": 7, "word": 32, "field": 3},
        **{"seq_lens_sum": 65_536, "num_tokens": 1024, "max_seq_len_k": 2048, "max_prefix_len": 1024},
        **{"num_copies": 0, "num_new_keys": 1},
        **{"verify_token_budget": 160, "max_verify_len": 6, "min_verify_len": 1},
        **{"padded_request": 80, "num_padded_requests": 80, "ring_size": 0},
        **{"simulated_num_tokens": 3, "step_index": 1, "seed": 2**32 - 1, "agreement": 2**31},
        **{"mask_token": 128_255, "draft_window": 1024, "depth": 2},
    }
)
"""Sizes as in production: 64 requests with trees of 16 nodes and a vocabulary of 128,256 tokens."""

SMALL: Sizes = MappingProxyType(
    {
        **PRODUCTION,
        **{"request": 1, "node": 8, "topk": 3, "step": 2, "draft": 3, "drafted": 3, "parent": 4, "vocab": 1000},
        **{"draft_vocab": 1000, "hidden": 64, "row": 2, "column": 1000, "k": 3, "position": 100, "page": 100},
        **{"token": 8, "location": 8, "pair": 4, "seq_lens_sum": 50, "num_tokens": 8, "max_seq_len_k": 64},
        **{"max_prefix_len": 50, "step_index": 0, "seed": 7, "agreement": 100, "bucket": 16, "buffer": 2},
        **{"page_size": 4, "num_copies": 6, "unfinished": 1, "listed": 0, "top": 0, "draft_window": 16, "depth": 1},
        **{"recent": 0, "word": 1, "padded_request": 1, "num_padded_requests": 1, "ring_size": 8, "max_verify_len": 4},
    }
)
"""One request with a small tree and a small vocabulary."""

LONG: Sizes = MappingProxyType(
    {
        **PRODUCTION,
        **{"request": 1, "node": 130, "topk": 16, "drafted": 5, "parent": 65, "hidden": 5, "row": 2, "k": 64},
        **{"column": 128_256, "token": 130, "location": 130, "num_tokens": 130, "pair": 5000, "slot": 16_384},
        **{"seq_lens_sum": 2048, "step_index": 3, "interval": 0},
    }
)
"""One request with a tree of more nodes than a word has bits, and more slots to move than registers hold."""

SCENES = {"production": PRODUCTION, "small": SMALL, "long": LONG}
RULES_OF_SIZES = ("select_top_k_tokens",)
"""Operations whose structural rules read no entries."""

MODEL_VOCAB = 512
"""The toy models know no more than 1,024 tokens."""

ROWS_OF_ANY = ((torch.bfloat16, (8, 128)), (torch.int32, (1,)), (torch.float16, (1,)), (torch.uint8, (3,)))
"""Element types and trailing sizes where the table allows any: rows of 8-, 4-, 2- and 1-byte words."""


def example(
    name: str, sizes: Sizes = PRODUCTION, device: torch.device | str = "meta", **changed: Any
) -> dict[str, Any]:
    """Return arguments of an operation.

    Parameters
    ----------
    name : str
        The operation.
    sizes : mapping
        Size of each axis, and value of each scalar that binds none.
    device : device
        Where the tensors lie; on ``meta`` they take no memory.
    **changed
        Of an argument: another value of a scalar, another element type, None to leave an optional array out.
    """
    contract = record_of(name).contract
    bindings = _bindings(contract, sizes, changed)
    return {
        spec.name: _scalar(spec, bindings)
        if isinstance(spec, ScalarSpec)
        else _array(spec, bindings, device, changed.get(spec.model or spec.name, ""))
        for spec in contract.parameters
    }


def variants(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (kind, arguments): in every scene, and as in production with one argument of another kind at a time.

    What an operation has no room for is passed over: a packed mask of 64 nodes, say.
    """
    contract = record_of(name).contract
    changes: list[tuple[str, Sizes, dict[str, Any]]] = [(kind, sizes, {}) for kind, sizes in SCENES.items()]
    for spec in contract.parameters:
        changes += [(spec.name, PRODUCTION, {spec.name: value}) for value in _alternatives(spec)]
    optional = [spec.name for spec in contract.arrays if spec.optional]
    without = [("no option", sizes, dict.fromkeys(optional)) for sizes in (PRODUCTION, SCENES["small"])]
    changes += without if len(optional) > 1 else []
    for kind, sizes, changed in changes:
        arguments = example(name, sizes, "meta", **changed)
        try:
            with launching(runs=False):
                call = prepare(name, arguments)
            if name in RULES_OF_SIZES:
                check_structure(name, arguments, call.axes)
        except SpecRejection:
            continue
        yield kind, arguments


def _alternatives(spec: ArraySpec | ScalarSpec) -> list[Any]:
    """Return the other element types of an array, its absence, and the other values of a scalar of few."""
    if isinstance(spec, ArraySpec):
        kinds: list[Any] = list(ROWS_OF_ANY[1:]) if spec.dtype == "any" else spec.dtype.split("|")[1:]
        return [*kinds, None] if spec.optional else kinds
    if spec.low is None or spec.high is None or names_of(spec.low) | names_of(spec.high):
        return []
    low, high = evaluate(spec.low, {}), evaluate(spec.high, {})
    return [value for value in range(low, high + 1) if value != spec.default] if high - low <= 2 else []


def _bindings(contract: Contract, sizes: Sizes, changed: Mapping[str, Any]) -> dict[str, Any]:
    bindings: dict[str, Any] = dict(sizes)
    if {"vocab_size", "ngram_counts"} & contract.by_name.keys():
        bindings["vocab"] = min(sizes["vocab"], MODEL_VOCAB)
    for spec in contract.scalars:
        value = changed.get(spec.name, spec.default if spec.flag or spec.name == "mask_mode" else None)
        if value is None:
            value = bindings[spec.axis or spec.name]
        bindings[spec.name] = bindings[spec.axis or spec.name] = value
    for axis, expression in contract.derived:
        bindings[axis] = evaluate(expression, bindings)
    bindings["visibility"] = bindings["token"] * bindings["token"] // bindings["request"]
    bindings["mask"] = bindings["node"] * (sizes["seq_lens_sum"] + bindings["node"] * bindings["request"])
    return bindings


def _scalar(spec: ScalarSpec, bindings: Mapping[str, Any]) -> Any:
    return bool(bindings[spec.name]) if spec.flag else bindings[spec.name]


def _array(spec: ArraySpec, bindings: dict[str, Any], device: torch.device | str, changed: Any) -> Any:
    if changed is None:
        return None
    dtype, trailing = changed if isinstance(changed, tuple) else (DTYPES.get(changed), (8, 128))
    if dtype is None:
        is_any = spec.dtype == "any" or spec.model is not None
        dtype = ROWS_OF_ANY[0][0] if is_any else DTYPES[spec.dtype.split("|")[0]]

    def tensor(index: int) -> torch.Tensor:
        known = {**bindings, "index": index}
        shape = [evaluate(axis, known) for axis in spec.axes if axis != "..."]
        shape += trailing if spec.axes[-1] == "..." else ()
        return torch.full(shape, _entry(spec, dtype), dtype=dtype, device=device)

    if spec.each is None:
        return tensor(bindings["index"])
    tensors = [tensor(index) for index in range(evaluate(spec.each, bindings))]
    if device == "meta":
        return tensors
    match spec.name:
        case "kv_buffers" | "state_buffers":
            return KVBuffers(tensors)
        case "step_buffers":
            return KVBuffers.of_steps(tensors)
        case "indexer_buffers":
            return KVBuffers.of_indexer(tensors, bindings["head_dim"])
    return tensors


def _entry(spec: ArraySpec, dtype: torch.dtype) -> Any:
    """Return an entry in range: the sentinel, one half, False, or the lower bound where that is a number above 0."""
    if spec.sentinel is not None:
        return spec.sentinel
    if dtype.is_floating_point:
        return 0.5
    return max(0, int(spec.low)) if spec.low is not None and not names_of(spec.low) else 0
