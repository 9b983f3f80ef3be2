"""Faults in what workers tell of the tokens that they output, which no operation can have."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from specsim.assertion import require_kind
from specsim.host.choice import TokenChoice
from specsim.phases import DraftInput
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.logprobs import Reported, ReportedToken, most_top
from specsim.simulation.numbers import Steps
from specsim.simulation.requests import PromptChunk
from specsim.simulation.verification import VerifyLimits
from specsim.simulation.worker import Iteration


class LateTeller(ReferenceWorker):
    """Tells of an iteration what belongs to the one before."""

    _before: Reported = ()

    def decode(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> Iteration:
        """Run one iteration, and keep its scores for the next."""
        iteration = super().decode(rows, num_steps, limits)
        now = self._reported
        if len(self._before) == len(now):
            self._reported = self._before
        self._before = now
        return iteration


class NeighbourTeller(ReferenceWorker):
    """Tells each request what belongs to the next one of its batch."""

    def told(self) -> Reported:
        """Return everything one place on."""
        return (*self._reported[1:], *self._reported[:1])


class LateStarter(ReferenceWorker):
    """Tells nothing of the token after a prompt."""

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts and forget their scores."""
        following = super().prefill(rows, chunks)
        self._reported = ((),) * len(rows)
        return following


class GenerousTeller(ReferenceWorker):
    """Tells everybody as many alternatives as the one who asked for most."""

    _most = 0

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how tokens are chosen, and the most that anybody asked for."""
        self._most = max(self._most, most_top(choices) or 0)
        asking = [None if one.top_logprobs is None else self._most for one in choices]
        pairs = zip(choices, asking, strict=True)
        super().assign_choices(rows, [replace(choice, top_logprobs=most) for choice, most in pairs])


class HotTeller(ReferenceWorker):
    """Divides by the temperature for everybody, also for those who ask for original scores."""

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how tokens are chosen, and forget who asks for original scores."""
        super().assign_choices(rows, [replace(choice, has_original_logprobs=False) for choice in choices])


class ListTeller(ReferenceWorker):
    """Scores for everybody the tokens that the first request listed."""

    _first: tuple[int, ...] | None = None

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how tokens are chosen, and the list of the first request."""
        asked = [one.token_ids_logprob for one in choices if one.top_logprobs is not None]
        self._first = self._first or next(iter(asked), None)
        first = self._first or ()
        telling = [first if one.top_logprobs is not None else () for one in choices]
        pairs = zip(choices, telling, strict=True)
        super().assign_choices(rows, [replace(choice, token_ids_logprob=listed) for choice, listed in pairs])


class DraftTeller(ReferenceWorker):
    """Scores the first token of an iteration as the draft does, if it proposed it."""

    def decode_from(
        self, read: Any, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None
    ) -> Iteration:
        """Run one iteration, and put the probabilities that its drafts started from in the place of scores."""
        iteration = super().decode_from(read, rows, num_steps, limits)
        started_from = require_kind("phase 0", self._phases[0], DraftInput)
        proposed = zip(self._reported, started_from.topk_index.tolist(), started_from.topk_p.tolist(), strict=True)
        self._reported = tuple(
            _by_draft(own, dict(zip(tokens, scores, strict=True))) for own, tokens, scores in proposed
        )
        return iteration


class TokenLateTeller(ReferenceWorker):
    """Tells of a token what belongs to the one before it in the same iteration."""

    def told(self) -> Reported:
        """Return scores one place on; the first token keeps its own."""
        return tuple(
            (*own[:1], *(replace(after, logprob=one.logprob, top=one.top) for one, after in pairwise(own)))
            for own in self._reported
        )


class OverlappedTeller(ReferenceWorker):
    """Tells of an iteration that was launched beside another one what belongs to the launch before."""

    _before: Reported = ()
    _is_in_turn = False

    def decode(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> Iteration:
        """Run one iteration; every request finds its own scores."""
        self._is_in_turn = True
        iteration = super().decode(rows, num_steps, limits)
        self._is_in_turn = False
        return iteration

    def decode_from(
        self, read: Any, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None
    ) -> Iteration:
        """Run one iteration, and keep its scores for the next unless it comes in turn."""
        iteration = super().decode_from(read, rows, num_steps, limits)
        scores = self._reported
        if not self._is_in_turn and len(self._before) == len(scores):
            self._reported = self._before
        self._before = scores
        return iteration


class NeighbourTellerV1(ReferenceWorkerV1):
    """Tells each request what belongs to the next one of its batch."""

    def told(self) -> Reported:
        """Return everything one place on."""
        return (*self._reported[1:], *self._reported[:1])


class ShortTellerV1(ReferenceWorkerV1):
    """Tells nothing of the token that ends a text."""

    def decode(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> Iteration:
        """Run one iteration, and forget the last score of each request that it ended."""
        iteration = super().decode(rows, num_steps, limits)
        ended = [one.finish is not None for one in self._ledger.requests]
        counts = [len(one.output) for one in self._ledger.requests]
        reported = zip(self._reported, self._ledger.requests, ended, counts, strict=True)
        self._reported = tuple(
            own[: count - 1 - len(one.logprobs)] if ends else own for own, one, ends, count in reported
        )
        return iteration


class RootTeller(ReferenceWorker):
    """Tells of an iteration only what its first tokens are."""

    def told(self) -> Reported:
        """Return the first entry of each request."""
        return tuple(own[:1] for own in self._reported)


def _by_draft(own: tuple[ReportedToken, ...], proposed: dict[int, float]) -> tuple[ReportedToken, ...]:
    return tuple(
        replace(one, logprob=float(np.log(proposed[one.token]))) if place == 0 and proposed.get(one.token) else one
        for place, one in enumerate(own)
    )


_WORKERS: tuple[tuple[str, str, Callable[..., ReferenceWorker]], ...] = (
    ("OWN-1391", "Scores are those of the iteration before.", LateTeller),
    ("OWN-1392", "Scores are those of the next request.", NeighbourTeller),
    ("OWN-1393", "Nothing is reported of the first token.", LateStarter),
    ("OWN-1394", "Alternatives are as many as somebody else asks for.", GenerousTeller),
    ("OWN-1395", "Of what an iteration accepts only the first token is reported.", RootTeller),
    ("OWN-1396", "A first token is scored by the draft that proposed it.", DraftTeller),
    ("OWN-1397", "Scores are those of the token before.", TokenLateTeller),
    ("OWN-3112", "Original scores are divided by the temperature.", HotTeller),
    ("OWN-3113", "All requests get the tokens that the first request listed.", ListTeller),
    (
        "OWN-1398",
        "What was launched beside another forward has the scores of the launch before.",
        OverlappedTeller,
    ),
)

_WORKERS_V1: tuple[tuple[str, str, Callable[..., ReferenceWorkerV1]], ...] = (
    ("OWN-1368", "V1: scores are those of the next request.", NeighbourTellerV1),
    ("OWN-1369", "V1: nothing is reported of the token that ends a text.", ShortTellerV1),
)

_OPERATION = "gather_output_logprobs"

MUTANTS = (
    *(Mutant(number, _OPERATION, fault, unchanged, worker=kind) for number, fault, kind in _WORKERS),
    *(Mutant(number, _OPERATION, fault, unchanged, worker_v1=kind) for number, fault, kind in _WORKERS_V1),
)
