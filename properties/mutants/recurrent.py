"""Faults in what is kept of recurrent states."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Mutant, Named, given, instead, returning

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
    """Return the node at a place, the last one for a place behind the path and the first for one in front of it."""
    return path[min(max(place, 0), len(path) - 1)]


def _crossing(path: list[int], length: int, count: int, interval: int, late: int = 0, early: int = 0) -> int:
    """Return the snapshot of lengths that are counted late, or of a crossing that is looked for early."""
    start, end = length - early, length + count - late
    return _at(path, end // interval * interval - length - 1) if start // interval != end // interval else -1


def _global_numbers(outputs: Named, arguments: Named) -> None:
    outputs["commit_step"] = (
        outputs["commit_step"] + np.arange(len(outputs["commit_step"])) * (arguments["num_draft_tokens"])
    )


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
    step_of: Any = lambda step, request, num_nodes, slot: step,
    place_of: Any = lambda request, slot: request,
    slot_of: Any = lambda request, slot: slot,
    buffers_of: Any = range,
    pairs_of: Any = lambda pairs: pairs,
    value_of: Any = lambda value: value,
    skips: bool = True,
) -> Callable[[Function], Function]:
    """Inject copies from another step or place, to another slot, or of some buffers; nothing wraps unless it should."""

    def commit_recurrent_states(
        state_buffers: Sequence[Array],
        step_buffers: Sequence[Array],
        state_slots: Array,
        commit_step: Array,
        snapshot_slots: Array,
        snapshot_step: Array,
    ) -> None:
        pairs = pairs_of([(state_slots, commit_step), (snapshot_slots, snapshot_step)])
        for number in buffers_of(len(state_buffers)):
            states, steps = state_buffers[number], step_buffers[number]
            places, nodes = steps.shape[:2]
            for slots, step in pairs:
                for request in range(len(slots)):
                    slot, node = int(slots[request]), int(step[request])
                    if skips and (slot < 0 or node < 0):
                        continue
                    node = step_of(node, request, nodes, slot)
                    place = place_of(request, slot) % places
                    states[slot_of(request, slot) % len(states)] = value_of(steps[place, node])

    return instead(commit_recurrent_states)


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


_STEPS = "get_recurrent_steps"
_COMMIT = "commit_recurrent_states"

MUTANTS = (
    Mutant(
        "PV09",
        _STEPS,
        "The number of accepted drafts is taken for the last accepted node.",
        _steps(lambda path, length, count, interval: count - 1),
    ),
    Mutant("OWN-1330", _STEPS, "Numbers are those of the batch.", returning(_global_numbers)),
    Mutant(
        "OWN-1331",
        _STEPS,
        "The node before the last one is committed.",
        _steps(lambda path, length, count, interval: _at(path, count - 2)),
    ),
    Mutant("OWN-1332", _STEPS, "The last column of the row is taken.", returning(_last_columns)),
    Mutant(
        "OWN-1333", _STEPS, "The first child is committed.", _steps(lambda path, length, count, interval: _at(path, 1))
    ),
    Mutant(
        "OWN-1334",
        _STEPS,
        "A length that ends exactly at a snapshot passes it.",
        _steps(None, partial(_crossing, late=1)),
    ),
    Mutant(
        "OWN-1335",
        _STEPS,
        "A length that starts at a snapshot takes it once more.",
        _steps(None, partial(_crossing, early=1)),
    ),
    Mutant(
        "OWN-1336",
        _STEPS,
        "The snapshot is taken one node late.",
        _steps(
            None,
            lambda path, length, count, interval: (
                _at(path, (length + count) // interval * interval - length)
                if length // interval != (length + count) // interval
                else -1
            ),
        ),
    ),
    Mutant(
        "OWN-1337",
        _STEPS,
        "The snapshot is taken one node early.",
        _steps(
            None,
            lambda path, length, count, interval: (
                _at(path, (length + count) // interval * interval - length - 2)
                if length // interval != (length + count) // interval
                else -1
            ),
        ),
    ),
    Mutant(
        "OWN-1338",
        _STEPS,
        "The snapshot is the state that is committed.",
        _steps(
            None,
            lambda path, length, count, interval: (
                path[-1] if length // interval != (length + count) // interval else -1
            ),
        ),
    ),
    Mutant(
        "OWN-1339",
        _STEPS,
        "Places on the path are taken for nodes of a snapshot.",
        _steps(
            None,
            lambda path, length, count, interval: (
                (length + count) // interval * interval - length - 1
                if length // interval != (length + count) // interval
                else -1
            ),
        ),
    ),
    Mutant("OWN-1340", _STEPS, "Snapshots are numbered in the batch.", returning(_global_snapshots)),
    Mutant("OWN-1341", _STEPS, "Lengths are those after the verify.", given(_lengths_after_verify)),
    Mutant("OWN-1342", _STEPS, "Only the first request has a snapshot.", returning(_snapshots_of_the_first)),
    Mutant("V25", _COMMIT, "States pass through half precision.", _kept(value_of=_half)),
    Mutant(
        "K15",
        _COMMIT,
        "Every verified node advances the state.",
        _kept(step_of=lambda step, request, num_nodes, slot: num_nodes - 1),
    ),
    Mutant(
        "K17",
        _COMMIT,
        "A batch in which no draft was accepted commits nothing.",
        given(_nothing_accepted_commits_nothing),
    ),
    Mutant("OWN-1350", _COMMIT, "Steps are looked up by slot.", _kept(place_of=lambda request, slot: slot)),
    Mutant("OWN-1351", _COMMIT, "States are kept by place in the batch.", _kept(slot_of=lambda request, slot: request)),
    Mutant(
        "OWN-1352",
        _COMMIT,
        "Only the first component is kept.",
        _kept(buffers_of=lambda count: range(min(count, 1))),
    ),
    Mutant("OWN-1353", _COMMIT, "The last component is left out.", _kept(buffers_of=lambda count: range(count - 1))),
    Mutant("OWN-1354", _COMMIT, "Snapshots are not taken.", _kept(pairs_of=lambda pairs: pairs[:1])),
    Mutant("OWN-1355", _COMMIT, "Only snapshots are taken.", _kept(pairs_of=lambda pairs: pairs[1:])),
    Mutant(
        "OWN-1356",
        _COMMIT,
        "A snapshot is the state that is committed.",
        _kept(pairs_of=lambda pairs: [pairs[0], (np.where(pairs[1][1] < 0, -1, pairs[1][0]), pairs[0][1])]),
    ),
    Mutant("OWN-1357", _COMMIT, "Steps and slots of -1 wrap to the last.", _kept(skips=False)),
    Mutant(
        "OWN-1358",
        _COMMIT,
        "The state before the node is kept.",
        _kept(step_of=lambda step, request, num_nodes, slot: max(step - 1, 0)),
    ),
    Mutant(
        "OWN-1359", _COMMIT, "Steps are those of the next request.", _kept(place_of=lambda request, slot: request + 1)
    ),
    Mutant("OWN-1360", _COMMIT, "Only the first entry of a state is kept.", given(_first_entry_only)),
)
