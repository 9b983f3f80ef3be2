"""Laws of recurrent state: what stays after a verify is what plain decoding of the accepted tokens leaves."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Array, Case, outputs_of, require_equal, states
from specsim.properties.strategies.arrays import bulk, mostly
from specsim.properties.strategies.topologies import TREE_KINDS, tree_of_kind

_MODULUS = 1_000_003


def the_last_accepted_node_is_committed(backend: Backend, case: Case) -> None:
    """The step is the number, inside its tree, of the node with which the accepted path ends."""
    steps = outputs_of(backend, "get_recurrent_steps", case)["commit_step"]
    ends = [[node for node in row if node >= 0][-1] for row in case["accept_index"].tolist()]
    require_equal("commit_step", steps, [end - b * case["num_draft_tokens"] for b, end in enumerate(ends)])


def snapshots_lie_at_multiples(backend: Backend, case: Case) -> None:
    """A snapshot is taken after the node with which the length becomes a multiple of the interval, if one does so."""
    steps = outputs_of(backend, "get_recurrent_steps", case)["snapshot_step"]
    expected = []
    for request, row in enumerate(case["accept_index"].tolist()):
        path = [node - request * case["num_draft_tokens"] for node in row if node >= 0]
        after = {int(case["seq_lens"][request]) + place + 1: node for place, node in enumerate(path)}
        at = [node for length, node in after.items() if case["interval"] and length % case["interval"] == 0]
        expected.append(at[0] if at else -1)
    require_equal("snapshot_step", steps, expected)


def states_are_those_after_their_nodes(backend: Backend, case: Case) -> None:
    """Every component of a slot is what was left after the node of its request, and other slots stay as they were."""
    after = outputs_of(backend, "commit_recurrent_states", case)["state_buffers"]
    owners = {}
    for slots, steps in (("state_slots", "commit_step"), ("snapshot_slots", "snapshot_step")):
        for request, (slot, step) in enumerate(zip(case[slots].tolist(), case[steps].tolist(), strict=True)):
            if slot >= 0 and step >= 0:
                owners[slot] = request, step
    for number, before in enumerate(case["state_buffers"]):
        for slot in range(1, len(before)):
            expected = case["step_buffers"][number][owners[slot]] if slot in owners else before[slot]
            require_equal(f"buffer {number}, state {slot}", after[number][slot], expected)


def rejected_nodes_leave_no_trace(backend: Backend, case: Case) -> None:
    """After verify the state is that of plain decoding of the accepted tokens, and so is a snapshot at its length."""
    paths, tokens, lengths = case["accept_index"], case["tokens"], case["seq_lens"]
    num_requests, num_nodes = tokens.shape
    asked = {name: case[name] for name in ("accept_index", "num_accepted_tokens", "seq_lens", "num_draft_tokens")}
    steps = outputs_of(backend, "get_recurrent_steps", {**asked, "interval": case["interval"]})
    start = case["states"]
    after_steps = [*_run_trees(start, case["state_slots"], tokens, case["parents"])]
    buffers = {"state_buffers": [start.copy(), start[:, :1].copy()], "step_buffers": after_steps}
    slots = {name: case[name] for name in ("state_slots", "snapshot_slots")}
    after = outputs_of(backend, "commit_recurrent_states", {**buffers, **slots, **steps})["state_buffers"]
    for request in range(num_requests):
        accepted = [int(tokens[request, node - request * num_nodes]) for node in paths[request] if node >= 0]
        one, length = start[case["state_slots"][request]], int(lengths[request])
        kept = start[case["snapshot_slots"][request]]
        for token in accepted:
            one, length = _after(one, token), length + 1
            if case["interval"] and length % case["interval"] == 0:
                kept = one
        for what, expected in (("state", one), ("snapshot", kept)):
            slot = case[f"{what}_slots"][request]
            require_equal(f"{what} of request {request}", after[0][slot], expected)
            require_equal(f"window in the {what} of request {request}", after[1][slot], expected[:1])


@composite
def verified_trees(draw: st.DrawFn) -> Case:
    """Draw trees with an accepted path each, committed states, and where states and snapshots lie."""
    num_requests, num_nodes, source = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(bulk())
    trees = [tree_of_kind(draw(st.sampled_from(TREE_KINDS)), num_nodes, source) for _ in range(num_requests)]
    parents = [list(tree.parents) for tree in trees]
    paths = [tree.path_to(source.integer(0, num_nodes - 1)) for tree in trees]
    accept_index = np.full((num_requests, max(map(len, paths))), -1, dtype=np.int32)
    for request, path in enumerate(paths):
        accept_index[request, : len(path)] = np.array(path) + request * num_nodes
    slots = source.order(2 * num_requests + 2) + 1
    interval = draw(mostly(st.integers(num_nodes, num_nodes + 3), st.just(0), one_in=8))
    return {
        "accept_index": accept_index,
        "num_accepted_tokens": (accept_index >= 0).sum(axis=1).astype(np.int32),
        "seq_lens": source.integers(num_requests, 0, 3 * num_nodes),
        "num_draft_tokens": num_nodes,
        "interval": interval,
        "parents": parents,
        "tokens": source.integers((num_requests, num_nodes), 1, 9),
        "states": source.integers((2 * num_requests + 3, 2), 0, 999),
        "state_slots": slots[:num_requests].astype(np.int64),
        "snapshot_slots": slots[num_requests : 2 * num_requests].astype(np.int64),
    }


def _after(one: Array, token: int) -> Array:
    """Return the state after one token: its last input and a fold in which order matters."""
    return np.array([token, (31 * int(one[1]) + 7 * int(one[0]) + token) % _MODULUS])


def _run_trees(
    start: Array, state_slots: Array, tokens: Array, parents: Sequence[Sequence[int]]
) -> tuple[Array, Array]:
    """Return the state after every node, and the part of it that a window keeps."""
    steps = np.zeros((*tokens.shape, 2), dtype=start.dtype)
    for request, above in enumerate(parents):
        for node, parent in enumerate(above):
            before = start[state_slots[request]] if parent < 0 else steps[request, parent]
            steps[request, node] = _after(before, int(tokens[request, node]))
    return steps, steps[..., :1].copy()


PROPERTIES = states(
    "recurrent",
    (the_last_accepted_node_is_committed, "get_recurrent_steps", "P44"),
    (snapshots_lie_at_multiples, "get_recurrent_steps", "P44"),
    (states_are_those_after_their_nodes, "commit_recurrent_states", "P44"),
    (rejected_nodes_leave_no_trace, verified_trees, ("get_recurrent_steps", "commit_recurrent_states"), "P44"),
)
