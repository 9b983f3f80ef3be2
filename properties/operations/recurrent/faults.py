"""Faults in what is kept of recurrent states."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Named, given, instead, mutants_of, returning

Array = Any


def _steps(commit: Any = None, snapshot: Any = None) -> Callable[[Function], Function]:
    """Inject other steps; both see (path inside the tree, length, accepted tokens, interval) of a request."""

    def change(outputs: Named, arguments: Named) -> None:
        interval, num_nodes = arguments["interval"], arguments["num_draft_tokens"]
        for request, row in enumerate(arguments["accept_index"].tolist()):
            path = [node - request * num_nodes for node in row if node >= 0]
            known = path, int(arguments["seq_lens"][request]), len(path), interval
            if commit is not None:
                outputs["commit_step"][request] = commit(*known)
            if snapshot is not None and interval:
                outputs["snapshot_step"][request] = snapshot(*known)

    return returning(change)


def _at(path: list[int], place: int) -> int:
    """Return the node at a place, the last one for a place after the path and the first for one in front of it."""
    return path[min(max(place, 0), len(path) - 1)]


def _snapshot(node_of: Callable[[list[int], int], int] = _at, late: int = 0, early: int = 0) -> Callable[..., int]:
    """Return a snapshot by lengths that are counted late, or by a crossing that is looked for early.

    ``node_of`` gets the path and the place on it of the node after which the snapshot is.
    """

    def snapshot(path: list[int], length: int, count: int, interval: int) -> int:
        start, end = length - early, length + count - late
        crossing = end // interval * interval
        return node_of(path, crossing - length - 1) if start // interval != end // interval else -1

    return snapshot


def _global_numbers(outputs: Named, arguments: Named) -> None:
    roots = np.arange(len(outputs["commit_step"])) * arguments["num_draft_tokens"]
    outputs["commit_step"] = outputs["commit_step"] + roots


def _global_snapshots(outputs: Named, arguments: Named) -> None:
    roots = np.arange(len(outputs["snapshot_step"])) * arguments["num_draft_tokens"]
    outputs["snapshot_step"] = np.where(outputs["snapshot_step"] < 0, -1, outputs["snapshot_step"] + roots)


def _last_columns(outputs: Named, arguments: Named) -> None:
    paths = arguments["accept_index"]
    outputs["commit_step"] = paths[:, -1] - np.arange(len(paths), dtype=np.int64) * arguments["num_draft_tokens"]


def _lengths_after_verify(arguments: Named) -> None:
    arguments["seq_lens"] = arguments["seq_lens"] + arguments["num_accepted_tokens"]


def _snapshots_of_the_first(outputs: Named, arguments: Named) -> None:
    outputs["snapshot_step"][1:] = -1


def _kept(
    place_of: Any = lambda request, slot: request, slot_of: Any = lambda request, slot: slot, skips: bool = True
) -> Callable[[Function], Function]:
    """Inject copies from another place, or to another slot; nothing wraps unless it should."""

    def keep(**named: Any) -> None:
        for states, steps in zip(named["state_buffers"], named["step_buffers"], strict=True):
            for slots, nodes in (
                (named["state_slots"], named["commit_step"]),
                (named["snapshot_slots"], named["snapshot_step"]),
            ):
                for request, (slot, node) in enumerate(zip(slots.tolist(), nodes.tolist(), strict=True)):
                    if not skips or (slot >= 0 and node >= 0):
                        place = place_of(request, slot) % len(steps)
                        states[slot_of(request, slot) % len(states)] = steps[place, node]

    return instead(keep)


def _at_other_steps(step_of: Callable[[Array, int], Array]) -> Callable[[Function], Function]:
    """Inject other nodes where there is one; ``step_of`` sees them and the nodes of a tree."""

    def change(arguments: Named) -> None:
        num_nodes = arguments["step_buffers"][0].shape[1] if arguments["step_buffers"] else 0
        for name in ("commit_step", "snapshot_step"):
            steps = arguments[name]
            arguments[name] = np.where(steps < 0, -1, step_of(steps, num_nodes))

    return given(change)


def _with_components(kept: slice) -> Callable[[Function], Function]:
    """Inject that only some components are kept."""

    def change(arguments: Named) -> None:
        for name in ("state_buffers", "step_buffers"):
            arguments[name] = arguments[name][kept]

    return given(change)


def _idle(name: str) -> Callable[[Function], Function]:
    """Inject that no request has a state, or a snapshot."""

    def change(arguments: Named) -> None:
        arguments[name] = np.full_like(arguments[name], -1)

    return given(change)


def _snapshots_of_the_end(arguments: Named) -> None:
    arguments["snapshot_step"] = np.where(arguments["snapshot_step"] < 0, -1, arguments["commit_step"])


def _steps_of_the_next(arguments: Named) -> None:
    arguments["step_buffers"] = [np.roll(steps, -1, axis=0) for steps in arguments["step_buffers"]]


def _halved(arguments: Named) -> None:
    arguments["step_buffers"] = [_half(steps) for steps in arguments["step_buffers"]]


def _half(value: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return value.astype(np.float16).astype(value.dtype) if value.dtype.kind == "f" else value


def _first_entry_only(arguments: Named) -> None:
    arguments["state_buffers"] = [
        states[..., :1] if states.ndim > 1 else states for states in arguments["state_buffers"]
    ]
    arguments["step_buffers"] = [steps[..., :1] if steps.ndim > 2 else steps for steps in arguments["step_buffers"]]


def _nothing_accepted_commits_nothing(arguments: Named) -> None:
    if not (arguments["commit_step"] > 0).any():
        arguments["commit_step"] = np.full_like(arguments["commit_step"], -1)


MUTANTS = (
    *mutants_of(
        "get_recurrent_steps",
        (
            "PV09",
            "The number of accepted drafts is taken for the last accepted node.",
            _steps(lambda path, length, count, interval: count - 1),
        ),
        ("OWN-1330", "Numbers are those of the batch.", returning(_global_numbers)),
        (
            "OWN-1331",
            "The node before the last one is committed.",
            _steps(lambda path, length, count, interval: _at(path, count - 2)),
        ),
        ("OWN-1332", "The last column of the row is taken.", returning(_last_columns)),
        ("OWN-1333", "The first child is committed.", _steps(lambda path, length, count, interval: _at(path, 1))),
        ("OWN-1334", "A length that ends exactly at a snapshot passes it.", _steps(None, _snapshot(late=1))),
        ("OWN-1335", "A length that starts at a snapshot takes it once more.", _steps(None, _snapshot(early=1))),
        (
            "OWN-1336",
            "The snapshot is taken one node late.",
            _steps(None, _snapshot(lambda path, place: _at(path, place + 1))),
        ),
        (
            "OWN-1337",
            "The snapshot is taken one node early.",
            _steps(None, _snapshot(lambda path, place: _at(path, place - 1))),
        ),
        (
            "OWN-1338",
            "The snapshot is the state that is committed.",
            _steps(None, _snapshot(lambda path, place: path[-1])),
        ),
        (
            "OWN-1339",
            "Places on the path are taken for nodes of a snapshot.",
            _steps(None, _snapshot(lambda path, place: place)),
        ),
        ("OWN-1340", "Snapshots are numbered in the batch.", returning(_global_snapshots)),
        ("OWN-1341", "Lengths are those after the verify.", given(_lengths_after_verify)),
        ("OWN-1342", "Only the first request has a snapshot.", returning(_snapshots_of_the_first)),
    ),
    *mutants_of(
        "commit_recurrent_states",
        ("V25", "States pass through half precision.", given(_halved)),
        (
            "K15",
            "Every verified node advances the state.",
            _at_other_steps(lambda steps, num_nodes: np.full_like(steps, num_nodes - 1)),
        ),
        ("K17", "A batch in which no draft was accepted commits nothing.", given(_nothing_accepted_commits_nothing)),
        ("OWN-1350", "Steps are looked up by slot.", _kept(place_of=lambda request, slot: slot)),
        ("OWN-1351", "States are kept by place in the batch.", _kept(slot_of=lambda request, slot: request)),
        ("OWN-1352", "Only the first component is kept.", _with_components(slice(1))),
        ("OWN-1353", "The last component is left out.", _with_components(slice(-1))),
        ("OWN-1354", "Snapshots are not taken.", _idle("snapshot_slots")),
        ("OWN-1355", "Only snapshots are taken.", _idle("state_slots")),
        ("OWN-1356", "A snapshot is the state that is committed.", given(_snapshots_of_the_end)),
        ("OWN-1357", "Steps and slots of -1 wrap to the last.", _kept(skips=False)),
        (
            "OWN-1358",
            "The state before the node is kept.",
            _at_other_steps(lambda steps, num_nodes: np.maximum(steps - 1, 0)),
        ),
        ("OWN-1359", "Steps are those of the next request.", given(_steps_of_the_next)),
        ("OWN-1360", "Only the first entry of a state is kept.", given(_first_entry_only)),
    ),
)
