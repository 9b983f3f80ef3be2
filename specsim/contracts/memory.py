"""Arguments that are written: they can be written, and share memory with no other argument nor with themselves.

Interleaved views of one buffer (K and V of every layer in one allocation) share none.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from specsim.contracts.contract import Contract
from specsim.contracts.extents import Extent, pairs_sharing
from specsim.contracts.faults import reject
from specsim.contracts.kinds import Memory
from specsim.contracts.lists import ArrayTuple
from specsim.rejection import Reason


def check_memory(name: str, contract: Contract, memory: Memory, arguments: Mapping[str, Any]) -> None:
    """Check the arguments that an operation writes; ``name`` is who states the contract.

    Raises
    ------
    SpecRejection
        READ_ONLY, SHARED_MEMORY.
    """
    if _have_different_owners(contract, memory, arguments) or _lie_apart(contract, memory, arguments):
        return
    labels, extents, is_written = _places(contract, memory, arguments)
    for label, extent, written in zip(labels, extents, is_written, strict=True):
        if written and extent.is_read_only:
            raise reject(Reason.READ_ONLY, label, "read-only", "writable", name, "its entries are written")
    for one, other in sorted(pairs_sharing(extents, is_written)):
        if one == other:
            got = f"an array of strides {extents[one].strides}"
            because = "two entries at one address cannot be written apart"
            raise reject(Reason.SHARED_MEMORY, labels[one], got, "one address an entry", name, because)
        got = f"in the memory of {labels[one]}"
        because = f"{labels[one if is_written[one] else other]} is written"
        raise reject(Reason.SHARED_MEMORY, labels[other], got, "in memory of its own", name, because)


def _have_different_owners(contract: Contract, memory: Memory, arguments: Mapping[str, Any]) -> bool:
    """Return whether every argument is a plain, writable block in memory that only it lies in, as nearly always."""
    owners: set[int] = set()
    num_arrays = 0
    for spec in contract.arrays:
        value = arguments.get(spec.name)
        if value is None:
            continue
        for array in (value,) if spec.each is None else value:
            owner = memory.owner_of(array)
            if owner is None:
                return False
            owners.add(id(owner))
            num_arrays += 1
    return len(owners) == num_arrays


def _lie_apart(contract: Contract, memory: Memory, arguments: Mapping[str, Any]) -> bool:
    """Return whether every argument is a plain, writable block and no two of them touch, by their addresses."""
    blocks: list[tuple[int, int]] = []
    for spec in contract.arrays:
        value = arguments.get(spec.name)
        if value is None:
            continue
        if isinstance(value, ArrayTuple):
            if value.is_shared:
                return False
            blocks += value.blocks
            continue
        for array in (value,) if spec.each is None else value:
            block = memory.block_of(array)
            if block is None:
                return False
            blocks.append(block)
    blocks.sort()
    return all(one[1] <= other[0] for one, other in pairwise(blocks))


def _places(
    contract: Contract, memory: Memory, arguments: Mapping[str, Any]
) -> tuple[list[str], list[Extent], list[bool]]:
    """Return the label of every array of a call, where it lies, and whether it is written."""
    labels: list[str] = []
    extents: list[Extent] = []
    is_written: list[bool] = []
    for spec in contract.arrays:
        value = arguments.get(spec.name)
        if value is None:
            continue
        arrays = (value,) if spec.each is None else value
        labels += [spec.name if spec.each is None else f"{spec.name}[{place}]" for place in range(len(arrays))]
        extents += value.extents if isinstance(value, ArrayTuple) else map(memory.extent_of, arrays)
        is_written += [spec.name in contract.writes] * len(arrays)
    return labels, extents, is_written
