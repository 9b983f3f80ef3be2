"""Faults in the hidden states that workers hand to users, which no operation can have."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_of_loops, overriding
from specsim.reference.worker.loop import Loop
from specsim.simulation.logprobs import HiddenState, Reported, ReportedToken

States = tuple[HiddenState | None, ...]

_REPORTED = "self._reported = tell(row, output, paths, verify_output.predict, choices, operations)"
_REPORTED_OF_PROMPTS = "tell(after.row, after.output, paths, following, self._choices, self._operations)"
_PROPOSALS = "proposals = side.facts.proposals(verify_input, widths.own_steps)"


def states_of(own: Sequence[ReportedToken]) -> States:
    """Return the state of each token that is reported of a request."""
    return tuple(one.hidden_state for one in own)


def with_states(own: Sequence[ReportedToken], states: Sequence[HiddenState | None]) -> tuple[ReportedToken, ...]:
    """Return what is reported of a request with other states, as far as it asks for any."""
    return tuple(
        one if one.hidden_state is None or state is None else replace(one, hidden_state=state)
        for one, state in zip(own, states, strict=False)
    )


def undone(own: Sequence[ReportedToken]) -> States:
    """Return states whose numbers stand in another order."""
    return tuple(one.hidden_state and one.hidden_state[::-1] for one in own)


def reporting(change: Callable[[Reported], Reported]) -> Callable[[type[Loop]], Any]:
    """Inject a change of what a loop hands out."""
    return overriding(told=lambda correct, worker: change(correct(worker)))


def _early(reported: Reported) -> Reported:
    """Hand a token the state that the token before it in the same iteration was chosen from; the first its own."""
    return tuple(with_states(own, (*states_of(own)[:1], *states_of(own)[:-1])) for own in reported)


def _late(reported: Reported) -> Reported:
    """Hand a token the state of its own position; the last of an iteration, which has none yet, keeps its own."""
    return tuple(with_states(own, (*states_of(own)[1:], *states_of(own)[-1:])) for own in reported)


def _of_neighbours(reported: Reported) -> Reported:
    """Hand each request the states of the next one of its batch, as far as that has any."""
    everyone = (*reported, *reported[:1])
    return tuple(
        with_states(own, (*states_of(other), *states_of(own)[len(other) :])) for own, other in pairwise(everyone)
    )


def _of_roots(reported: Reported) -> Reported:
    """Read rows of a tree as if there were one a request: every token gets the state of the root."""
    return tuple(with_states(own, states_of(own)[:1] * len(own)) for own in reported)


def _narrow(reported: Reported) -> Reported:
    return tuple(with_states(own, tuple(one and one[:-1] for one in states_of(own))) for own in reported)


def _of_the_first(reported: Reported) -> Reported:
    """Hand all requests of a batch the states of its first one, as far as that has any."""
    first = states_of(reported[0]) if reported else ()
    return tuple(with_states(own, (*first, *states_of(own)[len(first) :])) for own in reported)


def stale(reported: Reported, before: Reported) -> Reported:
    """Return the states of the iteration before, where it was as large."""
    if len(before) != len(reported):
        return reported
    pairs = zip(reported, before, strict=True)
    return tuple(with_states(own, (*states_of(old), *states_of(own)[len(old) :])) for own, old in pairs)


_STALE = edited(
    _REPORTED,
    f"""
    {_REPORTED}
    before, self.before = vars(self).get("before", ()), self._reported
    self._reported = stale(self._reported, before)
    """,
    within="ReferenceWorker.decode_from",
    stale=stale,
)

_COMPACTED = edited(
    _PROPOSALS,
    f"""
    {_PROPOSALS}
    rows = followed.phase.hidden_states
    taken = [tuple(tuple(rows[node].tolist()) for node in path if node >= 0) for path in paths.tolist()]
    self._reported = tuple(with_states(own, states) for own, states in zip(self._reported, taken, strict=True))
    """,
    within="ReferenceWorker.decode_from",
    with_states=with_states,
)

_OF_ANOTHER_ROW = edited(
    f"self._reported = {_REPORTED_OF_PROMPTS}",
    f"""
    pairs = zip({_REPORTED_OF_PROMPTS}, chunks, strict=True)
    self._reported = tuple(with_states(own, undone(own)) if chunk.start else own for own, chunk in pairs)
    """,
    within=Loop.prefill,
    with_states=with_states,
    undone=undone,
)

_RESUMED_IS_SILENT = edited(
    f"self._reported = {_REPORTED_OF_PROMPTS}",
    f"""
    begun, texts = vars(self).setdefault("begun", set()), [tuple(chunk.prompt) for chunk in chunks]
    is_known = [any(text[: len(one)] == one for one in begun) for text in texts]
    self._reported = tuple(() if known else own for own, known in zip({_REPORTED_OF_PROMPTS}, is_known, strict=True))
    begun |= {{(*text, int(token)) for text, token in zip(texts, following, strict=True)}}
    """,
    within=Loop.prefill,
)

_ENDS_ARE_SILENT = edited(
    _PROPOSALS,
    f"""
    {_PROPOSALS}
    kept = [len(one.output) - len(one.hidden_states) - (one.finish is not None) for one in ledger.requests]
    self._reported = tuple(own[:count] for own, count in zip(self._reported, kept, strict=True))
    """,
    within="ReferenceWorkerV1.decode",
)

_FAULTS = (
    ("OWN-3100", "States are those of the iteration before.", _STALE),
    ("OWN-3101", "States are one token early.", reporting(_early)),
    ("OWN-3102", "States are one token late.", reporting(_late)),
    ("OWN-3103", "States are those of the next request.", reporting(_of_neighbours)),
    ("OWN-3104", "All tokens of an iteration have the state of its root.", reporting(_of_roots)),
    ("OWN-3105", "States are a word too narrow.", reporting(_narrow)),
    ("OWN-3106", "States are read by node number after the compaction.", _COMPACTED),
    ("OWN-3107", "After a prefix that is there already, the state is not the prompt's.", _OF_ANOTHER_ROW),
    ("OWN-3108", "Nothing is reported of the first token of a request that resumes.", _RESUMED_IS_SILENT),
)

_FAULTS_OF_V1 = (
    ("OWN-3109", "V1: states are those of the next request.", reporting(_of_neighbours)),
    ("OWN-3110", "V1: states are one token early.", reporting(_early)),
    ("OWN-3111", "V1: no state is handed out of the token that ends a text.", _ENDS_ARE_SILENT),
    ("OWN-3114", "V1: states are one token late.", reporting(_late)),
    ("OWN-3115", "V1: states are those of the first request.", reporting(_of_the_first)),
)

MUTANTS = (
    *mutants_of_loops("gather_output_logprobs", [EAGLE_V2], _FAULTS),
    *mutants_of_loops("gather_output_logprobs", [EAGLE_V1], _FAULTS_OF_V1),
)
