"""How the KV of a side moves from slot to slot: by the layouts of its components, whole, or not at all.

A pool moves everything that it stores of a slot, or says that it cannot; what nothing is stored of moves at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from specsim.config import INDEXER_GROUP, INDEXER_PAGE_KEYS, INDEXER_SCALE_BYTES, PoolSizes
from specsim.rejection import Reason, SpecRejection, check_range, contradiction
from specsim.simulation.models.description import (
    KVComponent,
    Layout,
    ModelDescription,
    Side,
)

ArrayT = TypeVar("ArrayT")
ArrayT_contra = TypeVar("ArrayT_contra", contravariant=True)


class Pool(Protocol[ArrayT_contra]):
    """Everything that a side stores by slot."""

    def move(self, target_slots: ArrayT_contra, source_slots: ArrayT_contra, operations: Any) -> None:
        """Copy what every source slot holds into its target, as if all were read before any is written."""


@dataclass(frozen=True)
class LaidOutPool(Generic[ArrayT]):
    """Buffers by layout: rows of slots move in one launch over all of them, indexer entries in another.

    ``indexer_width`` is the bytes of an indexer key.
    """

    rows: Sequence[ArrayT]
    indexers: Sequence[ArrayT] = ()
    indexer_width: int = 0

    def move(self, target_slots: ArrayT, source_slots: ArrayT, operations: Any) -> None:
        """Move the rows, then the indexer entries; a side that has none of a sort launches nothing for it."""
        if len(self.rows):
            operations.move_kv_cache(self.rows, target_slots, source_slots)
        if len(self.indexers):
            operations.move_indexer_cache(self.indexers, target_slots, source_slots, self.indexer_width)


@dataclass(frozen=True)
class ImmovablePool:
    """A pool with a component that no one can move."""

    component: KVComponent

    def move(self, target_slots: Any, source_slots: Any, operations: Any) -> None:
        """Refuse.

        Raises
        ------
        SpecRejection
            NO_MOVE.
        """
        del target_slots, source_slots, operations
        raise _no_move(self.component, "the slots of an accepted path or of a shared page are copied")


def pool_of(
    description: ModelDescription,
    side: Side,
    buffers: Mapping[str, Sequence[ArrayT]],
    collect: Callable[[list[ArrayT]], Sequence[ArrayT]] = list,
    collect_indexers: Callable[[list[ArrayT], int], Sequence[ArrayT]] | None = None,
) -> Pool[ArrayT]:
    """Return the pool of a side.

    Parameters
    ----------
    buffers : mapping
        The buffers of every component, one a layer, by name.
    collect : callable
        Makes what a launch over many buffers takes.
    collect_indexers : callable or None
        Makes what a launch over many indexers takes, of buffers and the bytes of a key; None where that is a list.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: indexers of the side whose keys differ in width, or are as wide as no key.
    """
    components = description.components_of(side)
    unknown = _immovable(components)
    if unknown is not None:
        return ImmovablePool(unknown)
    sorts = {layout: {one.name: buffers[one.name] for one in components if one.layout is layout} for layout in Layout}
    rows = collect(layer_by_layer(sorts[Layout.SLOTS]))
    indexers = [one for one in components if one.layout is Layout.INDEXER_PAGES]
    if not indexers:
        return LaidOutPool(rows)
    pages, width = layer_by_layer(sorts[Layout.INDEXER_PAGES]), _same_width(indexers)
    return LaidOutPool(rows, pages if collect_indexers is None else collect_indexers(pages, width), width)


def layer_by_layer(buffers: Mapping[str, Sequence[ArrayT]]) -> list[ArrayT]:
    """Return every buffer of every component: those of the first layer, then those of the next."""
    columns = list(buffers.values())
    most_layers = max((len(column) for column in columns), default=0)
    return [column[layer] for layer in range(most_layers) for column in columns if layer < len(column)]


def indexer_width(component: KVComponent) -> int:
    """Return the bytes of a key in the pages of an indexer: D of ``64 * (D + 4 * D / 128)``.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no key fits a row of its pages.
    """
    group = INDEXER_GROUP + INDEXER_SCALE_BYTES
    num_groups, rest = divmod(component.row_shape[0], INDEXER_PAGE_KEYS * group)
    if rest or not num_groups or len(component.row_shape) != 1 or component.dtype != "uint8":
        raise contradiction(
            what=f"{component.side.value} component {component.name!r}",
            got=f"{component.dtype} {list(component.row_shape)}",
            expected=f"uint8, a multiple of {INDEXER_PAGE_KEYS * group} bytes",
            because="a row of an indexer has 64 keys, and a scale for each 128 bytes of them",
        )
    return num_groups * INDEXER_GROUP


def _same_width(indexers: Sequence[KVComponent]) -> int:
    """Return the bytes of a key of all indexers of a side, which move in one launch."""
    width, *others = (indexer_width(one) for one in indexers)
    for one, other in zip(indexers[1:], others, strict=True):
        if other != width:
            raise contradiction(
                what=f"bytes of a key of the {one.side.value.lower()} component {one.name!r}",
                got=other,
                expected=f"{width}, as of {indexers[0].name!r}",
                because="all indexers of a side move in one launch",
            )
    return width


def sides_that_move(topk: int, page_size: int, is_v1: bool) -> tuple[Side, ...]:
    """Return the sides whose slots a worker moves: a tree's accepted path, and the shared page of its beams.

    V1 gives the slots of a path to its positions, where pages do not tie slots together.
    """
    if topk == 1:
        return ()
    return (*(() if is_v1 and page_size == 1 else (Side.TARGET,)), *((Side.DRAFT,) if page_size > 1 else ()))


def require_moves(description: ModelDescription, sides: Sequence[Side]) -> None:
    """Raise unless the pools of these sides can be moved.

    Raises
    ------
    SpecRejection
        NO_MOVE: a component has a layout that only the model knows.
    """
    for side in sides:
        unknown = _immovable(description.components_of(side))
        if unknown is not None:
            raise _no_move(unknown, f"drafts are trees, for which slots of the {side.value.lower()} move")


def check_export(description: ModelDescription, sizes: PoolSizes, row: int, slots: Sequence[int]) -> None:
    """Raise unless a row and slots are there, and every slot has a row of its own in every buffer.

    Raises
    ------
    SpecRejection
        ROW_OUT_OF_RANGE, SLOT_OUT_OF_RANGE: no request can own it; NO_MOVE: a component is stored otherwise.
    """
    check_range(Reason.ROW_OUT_OF_RANGE, "row", row, "it is a request's", 1, sizes.num_rows - 1)
    for slot in (min(slots, default=1), max(slots, default=1)):
        check_range(Reason.SLOT_OUT_OF_RANGE, "slot", slot, "it is a request's", 1, sizes.num_slots - 1)
    for one in description.kv_components:
        if one.layout is not Layout.SLOTS:
            raise _no_move(one, "what leaves is copied slot by slot", Layout.SLOTS.name)


def _immovable(components: Sequence[KVComponent]) -> KVComponent | None:
    return next((one for one in components if one.layout is Layout.UNKNOWN), None)


_KNOWN = " or ".join(layout.name for layout in Layout if layout is not Layout.UNKNOWN)


def _no_move(component: KVComponent, because: str, expected: str = _KNOWN) -> SpecRejection:
    return SpecRejection(
        Reason.NO_MOVE,
        what=f"layout of the {component.side.value.lower()} component {component.name!r}",
        got=component.layout.name,
        expected=expected,
        because=because,
    )
