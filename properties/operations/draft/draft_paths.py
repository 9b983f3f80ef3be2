"""Paths of a draft from the root, by flat candidate ids alone."""

from typing import Any

import numpy as np

from specsim.properties.laws.checks import Array, require


def paths_of_kept(organized: dict[str, Any], request: int, topk: int) -> dict[int, list[int]]:
    """Return the flat ids from the root to each kept candidate; every one of them must be kept."""
    paths: dict[int, list[int]] = {}
    for candidate in organized["top_scores_index"][request].tolist():
        parent = int(organized["parent_list"][request, candidate // topk]) if candidate >= topk else None
        require(parent is None or parent in paths, f"the parent of kept candidate {candidate}", parent, "kept before")
        paths[candidate] = [*(paths[parent] if parent is not None else []), candidate]
    return paths


def path_of_beam(
    organized: dict[str, Any], parents_list: list[Array], token_list: list[Array], request: int, place: int, topk: int
) -> list[int]:
    """Return the tokens from the root to a beam of the last step, by flat ids alone."""
    tokens = np.concatenate([block[request] for block in token_list])
    candidate = int(parents_list[-1][request, place - topk])
    path = [int(tokens[candidate])]
    while candidate >= topk:
        candidate = int(organized["parent_list"][request, candidate // topk])
        path.append(int(tokens[candidate]))
    return path[::-1]
