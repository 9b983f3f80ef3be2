"""Faults in penalties."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.properties.mutants.record import Function, Mutant, Named, given, instead, of_the_first, of_the_neighbour


def _squares(arguments: Named) -> Array:
    width = arguments["num_draft_tokens"]
    return np.asarray(arguments["tree_mask"].reshape(-1, width, width))


def _counts(arguments: Named) -> Array:
    """Return int64 [request*node, vocab]: how often a token counts for each node."""
    width = arguments["num_draft_tokens"]
    counts = np.repeat(arguments["token_counts"].astype(np.int64), width, axis=0)
    for request, square in enumerate(_squares(arguments) if arguments["exact"] else ()):
        for node, draft in np.argwhere(square):
            if draft:
                counts[request * width + node, arguments["draft_token"][request * width + draft]] += 1
    return counts


def _penalised(arguments: Named, counts: Array, steps: str) -> Array:
    """Apply steps in an order: (f)requency, (p)resence, (s)cale, (d)ivide, presence of (e)very occurrence."""
    width, values = arguments["num_draft_tokens"], arguments["logits"].astype(np.float32)
    frequency, presence, scale = (
        np.repeat(arguments[f"{name}_penalty"], width)[:, None] for name in ("frequency", "presence", "repetition")
    )
    times = counts.astype(np.float32)
    for step in steps:
        if step == "f":
            values = values - frequency * times
        if step in "pe":
            values = values - presence * (np.minimum(times, 1) if step == "p" else times)
        if step in "sd":
            divided = (values > 0) | (step == "d")
            values = np.where(counts > 0, np.where(divided, values / scale, values * scale), values)
    return np.asarray(values.astype(np.float32))


def _in_steps(steps: str) -> Callable[[Function], Function]:
    def penalise(**arguments: Any) -> Array:
        return _penalised(arguments, _counts(arguments), steps)

    return instead(penalise)


def _each_token_once(**arguments: Any) -> Array:
    counts, before = _counts(arguments), _counts({**arguments, "exact": False})
    return _penalised(arguments, before + np.minimum(counts - before, 1), "fps")


def _root_again(**arguments: Any) -> Array:
    counts, width = _counts(arguments), arguments["num_draft_tokens"]
    if arguments["exact"]:
        rows = np.arange(len(counts))
        counts[rows, arguments["draft_token"][rows // width * width]] += 1
    return _penalised(arguments, counts, "fps")


def _everyone_sees_everyone(arguments: Named) -> None:
    arguments["tree_mask"] = np.ones_like(arguments["tree_mask"])


def _blind_to_itself(arguments: Named) -> None:
    arguments["tree_mask"] = (_squares(arguments) & ~np.eye(arguments["num_draft_tokens"], dtype=bool)).reshape(-1)


def _parent_alone(arguments: Named) -> None:
    squares = _squares(arguments).copy()
    for square in squares:
        for node, row in enumerate(square):
            seen = np.flatnonzero(row[:node])
            row[seen[:-1]] = False
    arguments["tree_mask"] = squares.reshape(-1)


def _always(exact: bool) -> Callable[[Named], None]:
    def change(arguments: Named) -> None:
        arguments["exact"] = exact

    return change


def _nothing_output(arguments: Named) -> None:
    arguments["token_counts"] = np.zeros_like(arguments["token_counts"])


_APPLY = "apply_penalties"

MUTANTS = (
    Mutant("OWN-471", _APPLY, "Penalties do not know the path of a node.", given(_always(False))),
    Mutant("OWN-472", _APPLY, "Relaxed penalties know the path of a node.", given(_always(True))),
    Mutant("OWN-473", _APPLY, "A token of the path counts once, not as often as it occurs.", instead(_each_token_once)),
    Mutant("OWN-474", _APPLY, "The root counts as output and as a node of the path.", instead(_root_again)),
    Mutant("OWN-475", _APPLY, "All nodes of the tree count for each node.", given(_everyone_sees_everyone)),
    Mutant("OWN-476", _APPLY, "A node's own token does not count for it.", given(_blind_to_itself)),
    Mutant("OWN-477", _APPLY, "Of a path only the last two nodes count.", given(_parent_alone)),
    Mutant("OWN-478", _APPLY, "The tokens of the path replace those that were output.", given(_nothing_output)),
    Mutant("OWN-479", _APPLY, "Logits are scaled before they are lessened.", _in_steps("sfp")),
    Mutant("OWN-480", _APPLY, "Logits are scaled between the two differences.", _in_steps("fsp")),
    Mutant("OWN-481", _APPLY, "Negative logits are divided too.", _in_steps("fpd")),
    Mutant("OWN-482", _APPLY, "Presence is penalised for every occurrence.", _in_steps("fes")),
    Mutant("OWN-483", _APPLY, "Every request has the frequency penalty of the first.",
           of_the_first("frequency_penalty")),
    Mutant("OWN-484", _APPLY, "A request has the counts of its neighbour.", of_the_neighbour("token_counts")),
)  # fmt: skip
