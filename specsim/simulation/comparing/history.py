"""What happened in a run, iteration by iteration, and where two runs first differ."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require, require_kind
from specsim.contracts.binding import defined_mask
from specsim.contracts.contract import ArraySpec
from specsim.operations import TABLE
from specsim.phases import DraftExtendInput, EagleDraftExtendInput, Phase, VerifyInput, VerifyOutput


@dataclass(frozen=True)
class Divergence:
    """The first place where two runs differ."""

    iteration: int
    phase: str
    field: str
    index: tuple[int, ...]
    expected: object
    got: object

    def __str__(self) -> str:
        place = ", ".join(map(str, self.index))
        where = f"iteration {self.iteration}, {self.phase}.{self.field}[{place}]"
        return f"{where} = {self.got}, but should be {self.expected}"


def first_divergence(iteration: int, expected: tuple[Phase, ...], got: tuple[Phase, ...]) -> Divergence | None:
    """Compare the phases of one iteration, NumPy arrays on both sides, in the order in which they happened.

    Entries of ``predict`` off the accepted path, and rows of the draft-extend input past it, are not compared.
    """
    require(len(got) == len(expected), "phases of an iteration", len(got), len(expected))
    for number, (left, right) in enumerate(zip(expected, got, strict=True)):
        require_kind(f"phase {number}", right, type(left))
        for field in fields(left):
            one, other = getattr(left, field.name), getattr(right, field.name)
            if not isinstance(one, np.ndarray):
                continue
            require_kind(f"{type(left).__name__}.{field.name}", other, np.ndarray)
            index = _first_difference(one, other, _compared(left, field.name, one))
            if index is not None:
                shown = (one[index], other[index]) if len(index) == one.ndim else (one.shape, other.shape)
                return Divergence(iteration, type(left).__name__, field.name, index, *shown)
    return None


def first_divergence_of_v1(iteration: int, v2: tuple[Phase, ...], v1: tuple[Phase, ...]) -> Divergence | None:
    """Compare an iteration of the V1 worker with the same one of the V2 worker, which is believed.

    Everything agrees but slot numbers, down to the extend: the segment of each request that goes on is the front of
    its rows in the fixed-width one.
    """
    draft, verify_input, verify_output, extend = v2
    _, ragged_verify, _, ragged = v1
    require_kind("phase 2 of V2", verify_output, VerifyOutput)
    slots = require_kind("phase 1 of V2", verify_input, VerifyInput).out_cache_loc
    same_slots = replace(require_kind("phase 1 of V1", ragged_verify, VerifyInput), out_cache_loc=slots)
    extend = require_kind("phase 3 of V2", extend, DraftExtendInput)
    ragged = require_kind("phase 3 of V1", ragged, EagleDraftExtendInput)
    divergence = first_divergence(iteration, v2[:3], (v1[0], same_slots, v1[2]))
    if divergence is not None:
        return divergence
    batch = vars(draft)["req_pool_indices"].tolist()
    begin = 0
    for row, count in zip(ragged.req_pool_indices.tolist(), ragged.num_accepted_tokens_cpu, strict=True):
        first = batch.index(row) * extend.num_draft_tokens
        for name in ("input_ids", "hidden_states"):
            one = getattr(extend, name)[first : first + count]
            other = getattr(ragged, name)[begin : begin + count]
            index = _first_difference(one, other, np.ones(one.shape, dtype=np.bool_))
            if index is not None:
                where = (begin + index[0], *index[1:]) if index else ()
                shown = (one[index], other[index]) if index else (one.shape, other.shape)
                return Divergence(iteration, type(ragged).__name__, name, where, *shown)
        begin += count
    return None


def _compared(phase: Phase, name: str, value: NDArray[np.generic]) -> NDArray[np.bool_]:
    tag = phase.tag
    if tag == "EAGLE_VERIFY_OUTPUT" and name == "predict":
        spec = require_kind("predict", TABLE["verify_tree_greedy"].contract.by_name["predict"], ArraySpec)
        return defined_mask(spec, value.shape, vars(phase), {})
    mask = np.ones(value.shape, dtype=np.bool_)
    if tag == "EAGLE_DRAFT_EXTEND_V2" and name in ("input_ids", "hidden_states"):
        width = vars(phase)["num_draft_tokens"]
        for request, count in enumerate(vars(phase)["num_accepted_tokens"]):
            mask[request * width + count : (request + 1) * width] = False
    return mask


def _first_difference(
    one: NDArray[np.generic], other: NDArray[np.generic], compared: NDArray[np.bool_]
) -> tuple[int, ...] | None:
    if one.shape != other.shape:
        return ()
    different = np.argwhere((one != other) & compared)
    return tuple(int(place) for place in different[0]) if len(different) else None
