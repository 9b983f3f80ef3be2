"""What structural rules share."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.rejection import Reason, SpecRejection

Arguments = Mapping[str, Any]


def first_place(bad: NDArray[np.bool_]) -> list[tuple[int, ...]]:
    """Return the index of the first true entry, in a list that is empty if there is none."""
    return [tuple(int(index) for index in place) for place in np.argwhere(bad)[:1]]


def check_forward_links(arguments: Arguments, axes: Arguments) -> None:
    """Links point forwards, so that every walk ends."""
    node = np.arange(axes["node"])[None, :]
    for name in ("retrieve_next_token", "retrieve_next_sibling"):
        backwards = (arguments[name] >= 0) & (arguments[name] <= node)
        for request, place in np.argwhere(backwards)[:1]:
            raise reject(
                Reason.CYCLIC_TREE,
                f"{name}[{request}, {place}]",
                arguments[name][request, place],
                f"-1 or above {place}",
                "children and later siblings have larger node numbers",
            )


def check_links(arguments: Arguments, axes: Arguments) -> None:
    """Links point forwards; a node's global number is its own request's."""
    check_forward_links(arguments, axes)
    own = np.arange(axes["request"])[:, None] * axes["node"] + np.arange(axes["node"])[None, :]
    for request, place in np.argwhere(arguments["retrieve_index"] != own)[:1]:
        raise reject(
            Reason.NODE_OUT_OF_RANGE,
            f"retrieve_index[{request}, {place}]",
            arguments["retrieve_index"][request, place],
            str(own[request, place]),
            "a request owns one block of nodes",
        )


def check_accept_index(accept_index: NDArray[np.int32], num_nodes: int) -> None:
    """Check that rows start at the root, ascend inside the request's block and end in sentinels."""
    for request, row in enumerate(accept_index.tolist()):
        previous = request * num_nodes - 1
        ended = False
        for place, node in enumerate(row):
            what = f"accept_index[{request}, {place}]"
            if node < 0:
                ended = True
            elif ended:
                raise reject(Reason.MALFORMED_PATH, what, node, "-1", "valid entries form a prefix of the row")
            elif node >= (request + 1) * num_nodes or node < request * num_nodes:
                block = f"{request * num_nodes} to {(request + 1) * num_nodes - 1}"
                raise reject(Reason.NODE_OUT_OF_RANGE, what, node, block, "a path stays in its own request")
            elif node <= previous:
                raise reject(Reason.MALFORMED_PATH, what, node, f"above {previous}", "accepted nodes ascend")
            elif place == 0 and node != request * num_nodes:
                raise reject(Reason.MALFORMED_PATH, what, node, str(request * num_nodes), "a path starts at the root")
            previous = node


def check_offsets(offsets: NDArray[Any], total: int, what: str) -> None:
    """Check that offsets ascend from 0 to a total."""
    if offsets[0] != 0 or offsets[-1] != total or (np.diff(offsets) < 0).any():
        raise reject(
            Reason.INCONSISTENT_LENGTHS, what, offsets.tolist(), f"ascending from 0 to {total}", "they cut a flat array"
        )


def range_lengths(arguments: Arguments) -> NDArray[np.int64]:
    """Return the lengths of ranges that must not end before they start."""
    lengths: NDArray[np.int64] = np.asarray(arguments["end_offsets"], dtype=np.int64) - arguments["start_offsets"]
    for request in np.flatnonzero(lengths < 0)[:1]:
        raise reject(
            Reason.INCONSISTENT_LENGTHS,
            f"end_offsets[{request}]",
            int(arguments["end_offsets"][request]),
            f"at least {int(arguments['start_offsets'][request])}",
            "a range does not end before it starts",
        )
    return lengths


def check_total(got: int, expected: int, what: str) -> None:
    """Check that ranges add up to the flat array they fill."""
    if got != expected:
        raise reject(Reason.INCONSISTENT_LENGTHS, what, expected, str(got), "the ranges add up to it")


def reject(reason: Reason, what: str, got: object, expected: str, because: str) -> SpecRejection:
    """Return the rejection of a structural fault."""
    return SpecRejection(reason, what=what, got=got, expected=expected, because=because)
