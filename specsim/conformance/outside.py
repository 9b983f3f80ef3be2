"""Calls that lie outside of what an implementation declares: they are never made.

``EMPTY`` concerns the axes along which a batch is counted; a contract that is broken is somebody else's affair.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.conformance.limits import SWITCHES, Limits, left_out
from specsim.contracts.binding import Bindings, arrays_of, bind, defined_mask
from specsim.contracts.contract import Unit
from specsim.operations.record import Operation
from specsim.operations.without_coins import SUFFIX
from specsim.rejection import SpecRejection
from specsim.topology import Topology

BATCH_AXES = ("request", "row", "token", "pair")
LARGEST_DEVIATION = 1e-4
"""How far the sum of a distribution may be from 1 by the rounding of its entries."""

_Predicate = Callable[[Operation, Mapping[str, Any], Bindings], bool]


class OutsideLimits(Exception):
    """A call is not made, because the implementation declares that it does not take it."""


def why_outside(limits: Limits, operation: Operation, arguments: Mapping[str, Any]) -> str | None:
    """Return what an implementation declares that a call does not heed, or None; strides are no reason."""
    if limits.are_none:
        return None
    try:
        bindings = bind(operation.name, operation.contract, arguments)
    except SpecRejection:
        return None
    for name, values in limits.declared_of(operation.name).items():
        got = arguments[name] if name in arguments else bindings.get(name)
        if got is not None and int(got) not in values:
            return left_out(operation.name, name, values)
    for axis, size, words in limits.largest_sizes():
        if int(bindings.get(axis, 0)) > size:
            return words
    for attribute, is_outside in _OUTSIDE.items():
        if limits.declares(attribute) and is_outside(operation, arguments, bindings):
            return SWITCHES[attribute]
    return None


def require_inside(limits: Limits, operation: Operation, arguments: Mapping[str, Any]) -> None:
    """Raise OutsideLimits where an implementation declares that it does not take a call."""
    outside = why_outside(limits, operation, arguments)
    if outside is not None:
        raise OutsideLimits(outside)


def _is_empty(operation: Operation, arguments: Mapping[str, Any], bindings: Bindings) -> bool:
    return any(bindings.get(axis) == 0 for axis in BATCH_AXES)


def _has_impossible_draft(operation: Operation, arguments: Mapping[str, Any], bindings: Bindings) -> bool:
    """Return whether a draft that a chain's walk may come to has probability 0 under its own proposal."""
    if not _has_proposals(operation, arguments):
        return False
    tokens, is_read = arguments["draft_tokens"], _is_defined(operation, "draft_probs", arguments, bindings)[:, 0]
    places = np.flatnonzero((tokens >= 0) & is_read)
    return any(not arguments["draft_probs"][place, tokens[place]] > 0 for place in places)


def _has_padded_proposal(operation: Operation, arguments: Mapping[str, Any], bindings: Bindings) -> bool:
    return _has_proposals(operation, arguments) and bool((arguments["draft_tokens"] < 0).any())


def _has_proposals(operation: Operation, arguments: Mapping[str, Any]) -> bool:
    is_of_chains = operation.name.removesuffix(SUFFIX) in ("chain_speculative_sampling", "chain_block_verification")
    return is_of_chains and arguments["draft_probs"] is not None


def _has_odd_mass(operation: Operation, arguments: Mapping[str, Any], bindings: Bindings) -> bool:
    for spec in operation.contract.arrays:
        is_row = spec.unit is Unit.PROBABILITY and spec.axes[-1] == "vocab" and spec.high != "0"
        if not is_row or arguments[spec.name] is None:
            continue
        for _, array in arrays_of(spec, arguments[spec.name]):
            rows = np.asarray(array, dtype=np.float64).reshape(-1, array.shape[-1])
            is_read = _is_defined(operation, spec.name, arguments, bindings).reshape(rows.shape)[:, :1].reshape(-1)
            if (np.abs(rows[is_read].sum(axis=1) - 1) > LARGEST_DEVIATION).any():
                return True
    return False


def _has_twins(operation: Operation, arguments: Mapping[str, Any], bindings: Bindings) -> bool:
    links = ("candidates", "retrieve_next_token", "retrieve_next_sibling")
    if not all(name in arguments for name in links):
        return False
    for tokens, next_token, next_sibling in zip(*(np.asarray(arguments[name]) for name in links), strict=True):
        try:
            tree = Topology.from_links(next_token, next_sibling)
        except SpecRejection:  # NOTE: bad links make no tree, and no one in it is anybody's sibling.
            continue
        if any(len(set(tokens[list(below)].tolist())) < len(below) for below in tree.children):
            return True
    return False


def _has_thresholds(operation: Operation, arguments: Mapping[str, Any], bindings: Bindings) -> bool:
    """Return whether an argument differs from what it is where an implementation lacks it."""
    return any((np.asarray(arguments[name]) != entry).any() for name, entry in operation.contract.neutral.items())


def _is_defined(operation: Operation, name: str, arguments: Mapping[str, Any], bindings: Bindings) -> NDArray[np.bool_]:
    """Return which entries of an array carry meaning; without its coins no one knows which rows a chain reads."""
    spec = next(spec for spec in operation.contract.arrays if spec.name == name)
    shape = np.shape(arguments[name])
    if spec.defined.rule in ("chain", "block") and "uniform_samples" not in arguments:
        return np.ones(shape, dtype=np.bool_)
    return defined_mask(spec, shape, arguments, bindings)


_OUTSIDE: dict[str, _Predicate] = {
    "EMPTY": _is_empty,
    "ZERO_PROPOSALS": _has_impossible_draft,
    "PADDED_PROPOSALS": _has_padded_proposal,
    "NORMALISED": _has_odd_mass,
    "DISTINCT_SIBLINGS": _has_twins,
    "THRESHOLDS": _has_thresholds,
}
"""Whether a call is what an attribute leaves out; strides are no reason."""
