"""Faults in the loop that drafts from a layer a step: in what its windows begin with, and in what waits for them."""

from collections.abc import Callable
from typing import Any

from specsim.conformance.arrays import Array
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, mutants_of_sides
from specsim.simulation.draft_sides.layered import Window

_PROPOSED = "arrays.concat([one.topk_index for one in proposals], axis=1)"
_COMMITTED = 'self._arrays.astype(counts, "int32")'
_APPENDED = (
    "self._operations.assign_hidden_states_pool(window.hidden_states, window.starts, committed, row, self._pool)"
)


def turned(side: Any, window: Window, tokens: Array) -> Window:
    """Return the next layer's window on the same positions, where the row that proposes gets the token."""
    rotated: Window = side._rotated(window, tokens)
    rotated.input_ids[window.select] = tokens
    return rotated


def _in_place_of_growing(window: str) -> Callable[[Function], Function]:
    return edited("self._grown(row, window, tokens, layer, pools)", window, within="LayeredSide._run", turned=turned)


def _after_chunks(statement: str) -> Callable[[Function], Function]:
    """Inject what happens in the rows of chunks once these are through."""
    followed = "self._follow(after.row, window, after.keys, goes_on, lengths, window.ends, bonus_tokens, pools)"
    instead = f"phase = {followed}\n{statement}\nreturn phase"
    return edited(f"return {followed}", instead, within="LayeredSide.prefill")


def _waiting_early(method: str, seq_lens: str, bonus_tokens: str) -> Callable[[Function], Function]:
    """Inject an append before the windows are made, so that they take states of their own rows."""
    followed = f"self._follow(row, window, keys, True, counts, {seq_lens}, {bonus_tokens}, pools)"
    instead = f"""
    self._keep(row, window, counts)
    appended = self._pool.copy()
    extended = {followed}
    self._pool[...] = appended
    return extended
    """
    return edited(f"return {followed}", instead, within=method)


_LAYERS_PROPOSE_LATE = edited(
    f"return topk_p, {_PROPOSED}",
    f"""
    proposed = {_PROPOSED}
    before, reported = vars(self).get("before", {{}}), proposed.copy()
    for place, number in enumerate(row.tolist()):
        reported[place, 1:] = before.get(number, proposed[place])[1:]
    self.before = before | dict(zip(row.tolist(), proposed, strict=True))
    return topk_p, reported
    """,
    within="LayeredSide._run",
)

_FAULTS = (
    ("OWN-1890", "Windows keep their rows, so that later layers keep what was proposed.",
     _in_place_of_growing("turned(self, window, tokens)")),
    ("OWN-1902", "The second layer's window grows and no other: what further layers have is approximate.",
     _in_place_of_growing("self._grown(row, window, tokens, layer, pools) if layer == 0 "
                          "else turned(self, window, tokens)")),
    ("OWN-1891", "A chunk that goes on does not look back.",
     edited("any(start > firsts[row] for row, start in starts.items())", "False", within="LayeredSide.prefill")),
    ("OWN-1892", "The hidden states that wait are those of no one.",
     edited(_APPENDED, "", within="LayeredSide._keep")),
    ("OWN-1893", "The hidden states of a prefill are lost.", _after_chunks("self._pool[after.row] = 0")),
    ("OWN-1894", "Hidden states of rejected rows wait.",
     edited(_COMMITTED, 'self._arrays.astype(window.lengths, "int32")', within="LayeredSide._keep")),
    ("OWN-1895", "The last committed hidden state does not wait.",
     edited(_COMMITTED, 'self._arrays.astype(counts - 1, "int32")', within="LayeredSide._keep")),
    ("OWN-1896", "Hidden states wait before they are needed.",
     _waiting_early("LayeredSide.extend", "seq_lens", "verify_output.bonus_tokens")),
    ("OWN-1897", "Hidden states wait in the row of the next request.",
     edited("row", "np.roll(row, 1)", within="LayeredSide._keep")),
    ("OWN-1898", "Each window gets the proposal of another request.",
     edited("tokens", "np.roll(tokens, 1)", within="LayeredSide._grown")),
    ("OWN-1899", "What is cached in front of a chunk is computed from what is not there.",
     _after_chunks("self._firsts[after.row] = 0")),
    ("OWN-1900", "A row keeps where its last owner began.",
     edited("self._joining |= set(rows)", "", within="LayeredSide.join")),
    ("OWN-1901", "Every step drafts what the first layer proposes.",
     edited(_PROPOSED, "np.repeat(proposals[0].topk_index, len(proposals), axis=1)", within="LayeredSide._run")),
    ("OWN-1903", "V1: hidden states wait before they are needed.",
     _waiting_early("LayeredSide.extend_ragged", "phase.seq_lens", "bonus_tokens")),
    ("OWN-1904", "All layers but the first propose late.", _LAYERS_PROPOSE_LATE),
)  # fmt: skip


MUTANTS = mutants_of_sides("assign_new_state", ["multi_layer_eagle_v1", "multi_layer_eagle_v2"], _FAULTS)
