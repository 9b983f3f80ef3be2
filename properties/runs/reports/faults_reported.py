"""Faults in what workers tell of the tokens that they output, scores and hidden states, which no operation can have."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.phases import DraftInput
from specsim.properties.mutants.record import edits_of_loops, mutants_of_loops, overriding
from specsim.reference.worker.loop import Loop
from specsim.simulation.logprobs import HiddenState, Reported, ReportedToken, most_top

States = tuple[HiddenState | None, ...]


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


def _one_token_early(reported: Reported) -> Reported:
    """Hand a token the state that the token before it in the same iteration was chosen from; the first its own."""
    return tuple(with_states(own, (*states_of(own)[:1], *states_of(own)[:-1])) for own in reported)


def _one_token_late(reported: Reported) -> Reported:
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


def _one_late(reported: Reported) -> Reported:
    """Return for each token the scores of the one before it in the same iteration; the first keeps its own."""
    return tuple(
        (*own[:1], *(replace(after, logprob=one.logprob, top=one.top) for one, after in pairwise(own)))
        for own in reported
    )


def scored_by_drafts(reported: Reported, start: DraftInput) -> Reported:
    """Return first tokens with the probabilities that drafts started from, where these proposed them."""
    scored = []
    for own, tokens, scores in zip(reported, start.topk_index.tolist(), start.topk_p.tolist(), strict=True):
        proposed = dict(zip(tokens, scores, strict=True))
        first = own[:1]
        if first and proposed.get(first[0].token):
            first = (replace(first[0], logprob=float(np.log(proposed[first[0].token]))),)
        scored.append((*first, *own[1:]))
    return tuple(scored)


def _of_the_next(reported: Reported) -> Reported:
    return (*reported[1:], *reported[:1])


MUTANTS = (
    *mutants_of_loops("gather_output_logprobs", [EAGLE_V2], (
        ("OWN-1392", "Scores are those of the next request.", reporting(_of_the_next)),
        ("OWN-1395", "Of what an iteration accepts only the first token is reported.",
         reporting(lambda reported: tuple(own[:1] for own in reported))),
        ("OWN-1397", "Scores are those of the token before.", reporting(_one_late)),
        ("OWN-3101", "States are one token early.", reporting(_one_token_early)),
        ("OWN-3102", "States are one token late.", reporting(_one_token_late)),
        ("OWN-3103", "States are those of the next request.", reporting(_of_neighbours)),
        ("OWN-3104", "All tokens of an iteration have the state of its root.", reporting(_of_roots)),
        ("OWN-3105", "States are a word too narrow.", reporting(_narrow)),
    )),
    *mutants_of_loops("gather_output_logprobs", [EAGLE_V1], (
        ("OWN-1368", "V1: scores are those of the next request.", reporting(_of_the_next)),
        ("OWN-3109", "V1: states are those of the next request.", reporting(_of_neighbours)),
        ("OWN-3110", "V1: states are one token early.", reporting(_one_token_early)),
        ("OWN-3114", "V1: states are one token late.", reporting(_one_token_late)),
        ("OWN-3115", "V1: states are those of the first request.", reporting(_of_the_first)),
    )),
    *edits_of_loops(
        [EAGLE_V2],
        """
        @@ gather_output_logprobs in ReferenceWorker.decode
        OWN-1391 Scores are those of the iteration before.
        - return self.decode_from(read, rows, num_steps, *([] if limits is None else [limits]))
        + iteration = self.decode_from(read, rows, num_steps, *([] if limits is None else [limits]))
        + before, self.before = vars(self).get("before", ()), self._reported
        + if len(before) == len(self._reported):
        +     self._reported = before
        + return iteration
        @@ gather_output_logprobs in ReferenceWorker
        OWN-1398 What was launched beside another forward has the scores of the launch before.
        - return self.decode_from(read, rows, num_steps, *([] if limits is None else [limits]))
        + self.is_in_turn = True
        + iteration = self.decode_from(read, rows, num_steps, *([] if limits is None else [limits]))
        + self.is_in_turn = False
        + return iteration
          self._reported = tell(row, output, paths, verify_output.predict, choices, operations)
        + before, self.before = vars(self).get("before", ()), self._reported
        + if not vars(self).get("is_in_turn") and len(before) == len(self._reported):
        +     self._reported = before
        @@ gather_output_logprobs in ReferenceWorker.decode_from
        OWN-1396 A first token is scored by the draft that proposed it.
          self._reported = tell(row, output, paths, verify_output.predict, choices, operations)
        + self._reported = scored_by_drafts(self._reported, start)
        OWN-3100 States are those of the iteration before.
          self._reported = tell(row, output, paths, verify_output.predict, choices, operations)
        + before, self.before = vars(self).get("before", ()), self._reported
        + self._reported = stale(self._reported, before)
        OWN-3106 States are read by node number after the compaction.
          proposals = side.facts.proposals(verify_input, widths)
        + rows = followed.phase.hidden_states
        + taken = [tuple(tuple(rows[node].tolist()) for node in path if node >= 0) for path in paths.tolist()]
        + self._reported = tuple(with_states(own, states) for own, states in zip(self._reported, taken, strict=True))
        @@ gather_output_logprobs in Loop.prefill
        OWN-1393 Nothing is reported of the first token.
        - tell(after.row, after.output, paths, following, self._choices, self._operations) => ((),) * len(rows)
        OWN-3107 After a prefix that is there already, the state is not the prompt's.
          self._reported = tell(after.row, after.output, paths, following, self._choices, self._operations)
        + pairs = zip(self._reported, chunks, strict=True)
        + self._reported = tuple(with_states(own, undone(own)) if chunk.start else own for own, chunk in pairs)
        OWN-3108 Nothing is reported of the first token of a request that resumes.
          self._reported = tell(after.row, after.output, paths, following, self._choices, self._operations)
        + begun, texts = vars(self).setdefault("begun", set()), [tuple(chunk.prompt) for chunk in chunks]
        + is_known = [any(text[: len(one)] == one for one in begun) for text in texts]
        + self._reported = tuple(() if known else own for own, known in zip(self._reported, is_known, strict=True))
        + begun |= {(*text, int(token)) for text, token in zip(texts, following, strict=True)}
        @@ gather_output_logprobs in Loop.assign_choices
        OWN-1394 Alternatives are as many as somebody else asks for.
        - self._choices.assign(rows, choices)
        + self.most = max(vars(self).get("most", 0), most_top(choices) or 0)
        + asking = [None if one.top_logprobs is None else self.most for one in choices]
        + choices = [replace(one, top_logprobs=most) for one, most in zip(choices, asking, strict=True)]
        + self._choices.assign(rows, choices)
        OWN-3112 Original scores are divided by the temperature.
        - self._choices.assign(rows, choices)
        + choices = [replace(one, has_original_logprobs=False) for one in choices]
        + self._choices.assign(rows, choices)
        OWN-3113 All requests get the tokens that the first request listed.
        - self._choices.assign(rows, choices)
        + listed = [one.token_ids_logprob for one in choices if one.top_logprobs is not None]
        + self.first = vars(self).get("first") or next(iter(listed), ())
        + telling = [() if one.top_logprobs is None else self.first for one in choices]
        + choices = [replace(one, token_ids_logprob=first) for one, first in zip(choices, telling, strict=True)]
        + self._choices.assign(rows, choices)
        """,
        most_top=most_top,
        replace=replace,
        scored_by_drafts=scored_by_drafts,
        stale=stale,
        undone=undone,
        with_states=with_states,
    ),
    *edits_of_loops(
        [EAGLE_V1],
        """
        @@ gather_output_logprobs in ReferenceWorkerV1.decode
        OWN-1369 V1: nothing is reported of the token that ends a text.
          proposals = side.facts.proposals(verify_input, widths)
        + requests = ledger.requests
        + counts = [len(one.output) - len(one.logprobs) - 1 if one.finish is not None else None for one in requests]
        + self._reported = tuple(own[:count] for own, count in zip(self._reported, counts, strict=True))
        OWN-3111 V1: no state is handed out of the token that ends a text.
          proposals = side.facts.proposals(verify_input, widths)
        + kept = [len(one.output) - len(one.hidden_states) - (one.finish is not None) for one in ledger.requests]
        + self._reported = tuple(own[:count] for own, count in zip(self._reported, kept, strict=True))
        """,
    ),
)  # fmt: skip
