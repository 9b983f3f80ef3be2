"""Mutants under limits: the kill matrix where everything is declared that can be, and who cannot be seen then."""

import json
from collections.abc import Collection
from pathlib import Path

import msgspec

from specsim.config import MOST_PACKED_NODES
from specsim.conformance.limits import NO_LIMITS, Limits

__all__ = ["EVERY_LIMIT", "NO_LIMITS", "read_unseen", "updated", "write_unseen"]

EVERY_LIMIT = Limits(
    values={
        "build_tree": {"mask_mode": (0, 1), "node": range(2, 65)},
        "verify_tree_greedy": {"node": range(1, 65), "request": range(1, 513)},
        "tree_speculative_sampling_target_only": {"node": range(1, MOST_PACKED_NODES + 1)},
        "top_k_renorm": {"vocab": range(2, 2050)},
        "top_p_renorm": {"vocab": range(2, 2050)},
    },
    takes_empty=False,
    is_contiguous=True,
    ties_are_free=True,
    takes_zero_proposals=False,
    takes_padded_proposals=False,
    is_normalised=True,
    has_distinct_siblings=True,
    takes_thresholds=False,
    writes_scratch=False,
)
"""Each kind of limit, declared as an engine would."""


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of a record."""

    unseen: list[str]


def read_unseen(path: Path) -> frozenset[str]:
    """Return the mutants that are recorded to live under the limits; a record that is not there has none.

    Raises
    ------
    msgspec.DecodeError
        The file has another format.
    OSError
        It cannot be read.
    """
    return frozenset(msgspec.json.decode(path.read_bytes(), type=_Document).unseen) if path.exists() else frozenset()


def write_unseen(unseen: Collection[str], path: Path) -> None:
    """Write the record, a line a mutant."""
    lines = ",\n".join(f"  {json.dumps(mutant)}" for mutant in sorted(unseen))
    path.write_text(f'{{"unseen": [\n{lines}\n]}}\n' if unseen else '{"unseen": []}\n', encoding="utf-8")


def updated(
    recorded: frozenset[str], shown: Collection[str], survivors: Collection[str], there: Collection[str]
) -> set[str]:
    """Return the record with what became of the mutants that were shown; who is no mutant any more is dropped."""
    return {mutant for mutant in {*(recorded - set(shown)), *survivors} if mutant in there}
