"""Faults in what workers tell of the tokens that they output, which no operation can have."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.phases import DraftInput
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, mutants_of_loops
from specsim.properties.runs.reports.faults_states import reporting
from specsim.reference.worker.loop import Loop
from specsim.simulation.logprobs import Reported, most_top

_REPORTED = "self._reported = tell(row, output, paths, verify_output.predict, choices, operations)"
_REPORTED_OF_PROMPTS = "tell(after.row, after.output, paths, following, self._choices, self._operations)"
_RAN = "self.decode_from(read, rows, num_steps, *([] if limits is None else [limits]))"
_TOKENS_IN_V1 = "proposals = side.facts.proposals(verify_input, widths.own_steps)"


def _one_late(reported: Reported) -> Reported:
    """Return for each token the scores of the one before it in the same iteration; the first keeps its own."""
    return tuple(
        (*own[:1], *(replace(after, logprob=one.logprob, top=one.top) for one, after in pairwise(own)))
        for own in reported
    )


def _asked(statements: str) -> Callable[[Function], Function]:
    """Inject other choices of requests that join."""
    assigned = "self._choices.assign(rows, choices)"
    return edited(assigned, f"{statements}\n{assigned}", within=Loop.assign_choices, replace=replace, most_top=most_top)


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


_OF_THE_ITERATION_BEFORE = """
before, self.before = vars(self).get("before", ()), self._reported
if len(before) == len(self._reported):
    self._reported = before
"""

_LATE = edited(
    f"return {_RAN}",
    f"iteration = {_RAN}{_OF_THE_ITERATION_BEFORE}return iteration",
    within="ReferenceWorker.decode",
)

_LATE_WHERE_OVERLAPPED = edited(
    f"return {_RAN}",
    f"self.is_in_turn = True\niteration = {_RAN}\nself.is_in_turn = False\nreturn iteration",
    _REPORTED,
    f"""
    {_REPORTED}
    before, self.before = vars(self).get("before", ()), self._reported
    if not vars(self).get("is_in_turn") and len(before) == len(self._reported):
        self._reported = before
    """,
    within="ReferenceWorker",
)

_ENDS_ARE_SILENT = edited(
    _TOKENS_IN_V1,
    f"""
    {_TOKENS_IN_V1}
    requests = ledger.requests
    counts = [len(one.output) - len(one.logprobs) - 1 if one.finish is not None else None for one in requests]
    self._reported = tuple(own[:count] for own, count in zip(self._reported, counts, strict=True))
    """,
    within="ReferenceWorkerV1.decode",
)

_NEIGHBOURS = reporting(lambda reported: (*reported[1:], *reported[:1]))

_FAULTS = (
    ("OWN-1391", "Scores are those of the iteration before.", _LATE),
    ("OWN-1392", "Scores are those of the next request.", _NEIGHBOURS),
    ("OWN-1393", "Nothing is reported of the first token.",
     edited(_REPORTED_OF_PROMPTS, "((),) * len(rows)", within=Loop.prefill)),
    ("OWN-1394", "Alternatives are as many as somebody else asks for.",
     _asked("self.most = max(vars(self).get('most', 0), most_top(choices) or 0)\n"
            "asking = [None if one.top_logprobs is None else self.most for one in choices]\n"
            "choices = [replace(one, top_logprobs=most) for one, most in zip(choices, asking, strict=True)]")),
    ("OWN-1395", "Of what an iteration accepts only the first token is reported.",
     reporting(lambda reported: tuple(own[:1] for own in reported))),
    ("OWN-1396", "A first token is scored by the draft that proposed it.",
     edited(_REPORTED, f"{_REPORTED}\nself._reported = scored_by_drafts(self._reported, start)",
            within="ReferenceWorker.decode_from", scored_by_drafts=scored_by_drafts)),
    ("OWN-1397", "Scores are those of the token before.", reporting(_one_late)),
    ("OWN-3112", "Original scores are divided by the temperature.",
     _asked("choices = [replace(one, has_original_logprobs=False) for one in choices]")),
    ("OWN-3113", "All requests get the tokens that the first request listed.",
     _asked("listed = [one.token_ids_logprob for one in choices if one.top_logprobs is not None]\n"
            "self.first = vars(self).get('first') or next(iter(listed), ())\n"
            "telling = [() if one.top_logprobs is None else self.first for one in choices]\n"
            "choices = [replace(one, token_ids_logprob=first) for one, first in zip(choices, telling, strict=True)]")),
    ("OWN-1398", "What was launched beside another forward has the scores of the launch before.",
     _LATE_WHERE_OVERLAPPED),
)  # fmt: skip

_FAULTS_OF_V1 = (
    ("OWN-1368", "V1: scores are those of the next request.", _NEIGHBOURS),
    ("OWN-1369", "V1: nothing is reported of the token that ends a text.", _ENDS_ARE_SILENT),
)

MUTANTS = (
    *mutants_of_loops("gather_output_logprobs", [EAGLE_V2], _FAULTS),
    *mutants_of_loops("gather_output_logprobs", [EAGLE_V1], _FAULTS_OF_V1),
)
