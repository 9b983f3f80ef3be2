"""How the cost of operations grows along one axis of an engine's sizes, the others as they are."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from specsim.contracts.axes import names_of
from specsim.contracts.contract import ArraySpec
from specsim.gpu.bench.every import Work, rows_of, shape_of, work_of
from specsim.gpu.bench.from_logits import NUM_STEPS
from specsim.gpu.bench.iteration import EngineSizes
from specsim.gpu.bench.row import Row, inputs_of
from specsim.gpu.launching.mode import launching
from specsim.gpu.launching.pointers import tensors_of
from specsim.operations import RECORDS

AXES: Mapping[str, tuple[int, ...]] = {
    "batch": (1, 4, 16, 64, 256, 1024),
    "nodes": (4, 8, 16, 32, 64, 128, 256),
    "topk": (1, 2, 4, 8, 16),
    "vocab": (32_000, 64_000, 128_256, 262_144),
    "length": (1024, 4096, 16_384, 65_536, 131_072),
}
"""The sizes at which operations are timed, by the field of ``EngineSizes`` that grows."""

BATCH = 64
PROBE = EngineSizes(
    batch=2,
    vocab=2500,
    draft_vocab=300,
    hidden=16,
    num_layers=2,
    length=12,
    kv_entry=(2, 8),
    state=(2, 8),
    state_layers=2,
    agreement=1.0,
)
"""Small sizes at which nothing that is drawn changes a shape: all drafts are accepted, requests are equally long."""

PROBED: Mapping[str, int] = {"batch": 3, "nodes": 32, "topk": 2, "vocab": 5000, "length": 140}


@dataclass(frozen=True)
class Growth:
    """A row that is timed at several sizes of an axis, and the shapes by which it is found among what was timed."""

    axis: str
    operation: str
    kind: str
    sizes: tuple[int, ...]
    shapes: tuple[str, ...]


def sizes_along(axis: str, size: int) -> EngineSizes:
    """Return an engine's sizes with one of another size; trees have as many nodes as beams propose, or more beams."""
    sizes = _with(EngineSizes(BATCH), axis, size)
    if axis == "topk":
        return replace(sizes, nodes=min(sizes.nodes, most_nodes(size)))
    topk = next(topk for topk in (sizes.topk, *AXES["topk"]) if most_nodes(topk) >= sizes.nodes)
    return replace(sizes, topk=topk)


def most_nodes(topk: int) -> int:
    """Return how many nodes so many beams propose: the root, its children, and ``topk`` children of each beam."""
    return 1 + topk + (NUM_STEPS - 1) * topk**2


def has_axis(row: Row, axis: str) -> bool:
    """Return whether the inputs of a row have other shapes, or numbers for sizes, where an axis has another size."""
    return _form(row, PROBE) != _form(row, _with(PROBE, axis, PROBED[axis]))


def growths_of(axis: str, operations: Collection[str] = ()) -> Iterator[Growth]:
    """Yield the rows of some operations, or of all, that have an axis."""
    for row in rows_of(operations):
        if has_axis(row, axis):
            shapes = tuple(shape_of(sizes_along(axis, size), row.kind) for size in AXES[axis])
            yield Growth(axis, row.operation, row.kind, AXES[axis], shapes)


def works_along(growths: Collection[Growth]) -> list[Work]:
    """Return what is timed for some growths, each shape once and the shapes of an operation one after another."""
    rows = {(row.operation, row.kind): row for row in rows_of()}
    works = {
        (one.operation, shape): work_of(rows[one.operation, one.kind], sizes_along(one.axis, size))
        for one in sorted(growths, key=lambda one: [*RECORDS].index(one.operation))
        for size, shape in zip(one.sizes, one.shapes, strict=True)
    }
    return list(works.values())


def _with(sizes: EngineSizes, axis: str, size: int) -> EngineSizes:
    changed: dict[str, Any] = {axis: size}
    return replace(sizes, **changed)


def _form(row: Row, sizes: EngineSizes) -> list[Any]:
    """Return the shapes of arrays, and the numbers that are sizes of any."""
    torch.manual_seed(0)
    with launching(runs=False):
        inputs = inputs_of(row, sizes)
    contract = RECORDS[row.operation].contract
    axes = [axis for spec in (*contract.arrays, *contract.outputs) for axis in spec.axes if axis != "..."]
    counted = frozenset().union(*map(names_of, [*axes, *(expression for _, expression in contract.derived)]))
    form: list[Any] = []
    for spec in contract.parameters:
        if isinstance(spec, ArraySpec):
            form.append([one.shape for one in tensors_of(inputs, [spec.name]) if one is not None])
        elif spec.name in counted or spec.axis in counted:
            form.append(inputs[spec.name])
    return form
