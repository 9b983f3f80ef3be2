"""Doors to a compiled contract for callers that want its axes alone, and what the entries of an array may be.

The array library does not matter but where entries are read.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.contracts.attended import pages_read, slots_read
from specsim.contracts.axes import evaluate, names_of
from specsim.contracts.chains import (
    block_draft_logits_read,
    block_draft_rows_read,
    block_target_logits_read,
    block_target_rows_read,
    draft_logits_read,
    draft_rows_read,
    target_logits_read,
    target_rows_read,
)
from specsim.contracts.compiled import compile_contract
from specsim.contracts.contract import ArraySpec, Contract, Defined
from specsim.contracts.faults import reject
from specsim.contracts.kinds import dtype_name, is_floating

__all__ = ["Bindings", "arrays_of", "bind", "bound_of", "defined_mask", "dtype_name", "is_floating", "reject"]

Bindings = Mapping[str, Any]

ROWS_READ = {
    "draft_probs": draft_rows_read,
    "target_probs": target_rows_read,
    "draft_logits": draft_logits_read,
    "target_logits": target_logits_read,
}
"""Which rows of a chain's probabilities or logits carry meaning."""

ROWS_OF_BLOCKS = {
    "draft_probs": block_draft_rows_read,
    "target_probs": block_target_rows_read,
    "draft_logits": block_draft_logits_read,
    "target_logits": block_target_logits_read,
}
"""The same of a chain that is judged as a block."""


def bind(name: str, contract: Contract, arguments: Mapping[str, Any]) -> Bindings:
    """Bind every axis of a call and check dtypes, shapes and scalars; ``name`` is who states the contract."""
    return compile_contract(name, contract).check(arguments).axes


def arrays_of(spec: ArraySpec, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (label, array) for an array argument or for each entry of a list argument."""
    if value is None:
        return
    if spec.each is None:
        yield spec.name, value
        return
    for index, entry in enumerate(value):
        yield f"{spec.name}[{index}]", entry


def bound_of(expression: str | None, bindings: Mapping[str, Any]) -> int | None:
    """Return the value of a bound, or None when there is none or a name of it is unbound."""
    if expression is None or not names_of(expression) <= bindings.keys():
        return None
    return int(evaluate(expression, bindings))


def defined_mask(
    spec: ArraySpec, shape: Sequence[int], arrays: Mapping[str, Any], bindings: Mapping[str, Any]
) -> NDArray[np.bool_]:
    """Return which entries of an array carry meaning, as a mask that broadcasts over trailing axes.

    Parameters
    ----------
    arrays : mapping
        Arguments and outputs of the call by name, as NumPy arrays.
    """
    mask = np.ones(tuple(shape), dtype=np.bool_)
    rule: Defined = spec.defined
    if rule.rule == "all":
        return mask
    if rule.rule == "live":
        mask[:1] = False
        return mask
    if rule.rule == "length":
        sums = {f"sum_{key}": int(np.sum(arrays[key])) for key in arrays if f"sum_{key}" in names_of(rule.by)}
        mask[int(evaluate(rule.by, {**bindings, **sums})) :] = False
        return mask
    if rule.rule == "chain":
        return mask & (ROWS_READ[rule.by](arrays)[:, None])
    if rule.rule == "block":
        return mask & (ROWS_OF_BLOCKS[rule.by](arrays)[:, None])
    if rule.rule == "attended":
        read = pages_read(arrays) if rule.by == "cache_seqlens" else slots_read(arrays, shape[0])
        return mask & read.reshape(*read.shape, *(1 for _ in shape[read.ndim :]))
    by = np.asarray(arrays[rule.by])
    if rule.rule == "prefix":
        return mask & (np.arange(shape[1])[None, :] < by[:, None])
    if rule.rule == "rows":
        rows = by[:, -1] if by.ndim == 2 else by[-1:]
        reached: NDArray[np.bool_] = np.arange(shape[-1])[None, :] < rows[:, None]
        return reached.reshape(tuple(shape))
    if rule.rule == "owned":
        owned: NDArray[np.bool_] = by != 0
        return mask & owned.reshape(-1, *(1 for _ in shape[1:]))
    mask[:] = False
    if rule.rule == "at":
        kept = by[by >= 0]
        mask[kept[kept < shape[0]]] = True
        return mask
    width = shape[0] // len(by) if len(by) else 0
    for request in range(len(by)):
        for entry in range(min(by.shape[1], width)):
            mask[request * width + entry] = by[request, entry] >= 0
    return mask
