"""Faults in what is kept of recurrent states."""

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_by_operation, with_outputs

_LAST = "accept_index[request, count - 1]"
_PLACE = "crossing - length - 1"
_SNAPSHOT = f"accept_index[request, {_PLACE}] - root"
_KEPT = "steps[request, step]"

_nothing_accepted = edited("commit_step[request]", "commit_step[request] if any(commit_step > 0) else -1")
_last_node_not_counted = edited(
    f"commit_step[request] = {_LAST} - root", f"commit_step[request] = {_LAST} - root\ncount -= 1"
)
_start_passed_again = edited("length // interval", "(length - 1) // interval", _PLACE, f"max({_PLACE}, 0)")
_after_verify = edited("int(seq_lens[request])", "int(seq_lens[request] + num_accepted_tokens[request])")
_of_the_first = with_outputs(snapshot_step=lambda steps: np.where(np.arange(len(steps)) > 0, -1, steps))
_first_component = edited("state_buffers", "state_buffers[:1]", "step_buffers", "step_buffers[:1]")
_last_component_left_out = edited("state_buffers", "state_buffers[:-1]", "step_buffers", "step_buffers[:-1]")
_halved = edited(_KEPT, 'steps.astype(np.float16 if steps.dtype.kind == "f" else steps.dtype)[request, step]')
_state_of_the_end = edited("snapshot_step[request]", "commit_step[request] if snapshot_step[request] >= 0 else -1")
_first_entry_only = edited(
    f"states[slot] = {_KEPT}",
    """
    first = (..., slice(1)) if states.ndim > 1 else ...
    states[first][slot] = steps[first][request, step]
    """,
)
_drafts_for_the_node = edited(f"{_LAST} - root", "count - 1")
_node_before_the_last = edited(_LAST, "accept_index[request, max(count - 2, 0)]")

MUTANTS = mutants_by_operation(
    get_recurrent_steps=(
        ("PV09", "The number of accepted drafts is taken for the last accepted node.", _drafts_for_the_node),
        ("OWN-1330", "Numbers are those of the batch.", edited(f"{_LAST} - root", _LAST)),
        ("OWN-1331", "The node before the last one is committed.", _node_before_the_last),
        ("OWN-1332", "The last column of the row is taken.", edited(_LAST, "accept_index[request, -1]")),
        ("OWN-1333", "The first child is committed.", edited(_LAST, "accept_index[request, min(1, count - 1)]")),
        ("OWN-1334", "A length that ends exactly at a snapshot passes it.", _last_node_not_counted),
        ("OWN-1335", "A length that starts at a snapshot takes it once more.", _start_passed_again),
        ("OWN-1336", "The snapshot is taken one node late.", edited(_PLACE, f"min({_PLACE} + 1, count - 1)")),
        ("OWN-1337", "The snapshot is taken one node early.", edited(_PLACE, f"max({_PLACE} - 1, 0)")),
        ("OWN-1338", "The snapshot is the state that is committed.", edited(_PLACE, "count - 1")),
        ("OWN-1339", "Places on the path are taken for nodes of a snapshot.", edited(_SNAPSHOT, _PLACE)),
        ("OWN-1340", "Snapshots are numbered in the batch.", edited(_SNAPSHOT, f"accept_index[request, {_PLACE}]")),
        ("OWN-1341", "Lengths are those after the verify.", _after_verify),
        ("OWN-1342", "Only the first request has a snapshot.", _of_the_first),
    ),
    commit_recurrent_states=(
        ("V25", "States pass through half precision.", _halved),
        ("K15", "Every verified node advances the state.", edited(_KEPT, "steps[request, -1]")),
        ("K17", "A batch in which no draft was accepted commits nothing.", _nothing_accepted),
        ("OWN-1350", "Steps are looked up by slot.", edited(_KEPT, "steps[slot % len(steps), step]")),
        ("OWN-1351", "States are kept by place in the batch.", edited("states[slot]", "states[request % len(states)]")),
        ("OWN-1352", "Only the first component is kept.", _first_component),
        ("OWN-1353", "The last component is left out.", _last_component_left_out),
        ("OWN-1354", "Snapshots are not taken.", edited("snapshot_slots[request]", "-1")),
        ("OWN-1355", "Only snapshots are taken.", edited("state_slots[request]", "-1")),
        ("OWN-1356", "A snapshot is the state that is committed.", _state_of_the_end),
        ("OWN-1357", "Steps and slots of -1 wrap to the last.", edited("slot >= 0 and step >= 0", "True")),
        ("OWN-1358", "The state before the node is kept.", edited(_KEPT, "steps[request, max(step - 1, 0)]")),
        ("OWN-1359", "Steps are those of the next request.", edited(_KEPT, "steps[(request + 1) % len(steps), step]")),
        ("OWN-1360", "Only the first entry of a state is kept.", _first_entry_only),
    ),
)
