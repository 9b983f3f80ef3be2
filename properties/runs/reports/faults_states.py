"""Faults in the hidden states that workers hand to users, which no operation can have."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from specsim.assertion import require_kind
from specsim.phases import DraftExtendInput
from specsim.properties.mutants.record import Mutant, overriding, unchanged
from specsim.reference.worker.loop import Loop
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.logprobs import HiddenState, Reported, ReportedToken
from specsim.simulation.numbers import Steps
from specsim.simulation.requests import PromptChunk
from specsim.simulation.verification import VerifyLimits
from specsim.simulation.worker import Iteration

States = tuple[HiddenState | None, ...]


class StaleStates(ReferenceWorker):
    """Hands out of the buffer that the iteration before filled, where it is as large."""

    _before: Reported = ()

    def decode_from(
        self, read: Any, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None
    ) -> Iteration:
        """Run one iteration, and keep its states for the next."""
        iteration = super().decode_from(read, rows, num_steps, limits)
        reported = self._reported
        if len(self._before) == len(reported):
            pairs = zip(reported, self._before, strict=True)
            self._reported = tuple(_with_states(own, (*_states(old), *_states(own)[len(old) :])) for own, old in pairs)
        self._before = reported
        return iteration


class CompactedStates(ReferenceWorker):
    """Reads states by node number when they have been brought to the front."""

    def decode_from(
        self, read: Any, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None
    ) -> Iteration:
        """Run one iteration, and take its states from what the extend was handed."""
        iteration = super().decode_from(read, rows, num_steps, limits)
        extended = require_kind("phase 3", self._phases[3], DraftExtendInput).hidden_states
        paths = vars(self._phases[2])["accept_index"].tolist()
        taken = [tuple(tuple(extended[node].tolist()) for node in path if node >= 0) for path in paths]
        self._reported = tuple(_with_states(own, states) for own, states in zip(self._reported, taken, strict=True))
        return iteration


class FirstRowStates(ReferenceWorker):
    """Hands the token after a prompt that goes on from cached or earlier positions the state of another row."""

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts, and change what is reported of those that do not start at 0."""
        following = super().prefill(rows, chunks)
        pairs = zip(self._reported, chunks, strict=True)
        self._reported = tuple(_with_states(own, _undone(own)) if chunk.start else own for own, chunk in pairs)
        return following


class SilentResumer(ReferenceWorker):
    """Tells nothing of the token after a text that it has begun to output before."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._begun: set[tuple[int, ...]] = set()

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts, and forget what is reported of those that go on from a known first token."""
        following = super().prefill(rows, chunks)
        texts = [tuple(chunk.prompt) for chunk in chunks]
        is_known = [any(text[: len(one)] == one for one in self._begun) for text in texts]
        self._reported = tuple(() if known else own for own, known in zip(self._reported, is_known, strict=True))
        self._begun |= {(*text, token) for text, token in zip(texts, following, strict=True)}
        return following


class ShortStatesV1(ReferenceWorkerV1):
    """Hands out no state of the token that ends a text."""

    def decode(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> Iteration:
        """Run one iteration, and forget the last state of each request that it ended."""
        iteration = super().decode(rows, num_steps, limits)
        requests = self._ledger.requests
        kept = [len(one.output) - len(one.hidden_states) - (one.finish is not None) for one in requests]
        self._reported = tuple(own[:count] for own, count in zip(self._reported, kept, strict=True))
        return iteration


def _states(own: Sequence[ReportedToken]) -> States:
    return tuple(one.hidden_state for one in own)


def _with_states(own: Sequence[ReportedToken], states: Sequence[HiddenState | None]) -> tuple[ReportedToken, ...]:
    """Return what is reported of a request with other states, as far as it asks for any."""
    return tuple(
        one if one.hidden_state is None or state is None else replace(one, hidden_state=state)
        for one, state in zip(own, states, strict=False)
    )


def _undone(own: Sequence[ReportedToken]) -> States:
    """Return states whose numbers stand in another order."""
    return tuple(one.hidden_state and one.hidden_state[::-1] for one in own)


def _reported(change: Callable[[Reported], Reported], loop: type[Loop]) -> Any:
    """Return a loop that hands out something else than it has."""
    return overriding(told=lambda correct, worker: change(correct(worker)))(loop)


def _early(reported: Reported) -> Reported:
    """Hand a token the state that the token before it in the same iteration was chosen from; the first its own."""
    return tuple(_with_states(own, (*_states(own)[:1], *_states(own)[:-1])) for own in reported)


def _late(reported: Reported) -> Reported:
    """Hand a token the state of its own position; the last of an iteration, which has none yet, keeps its own."""
    return tuple(_with_states(own, (*_states(own)[1:], *_states(own)[-1:])) for own in reported)


def _of_neighbours(reported: Reported) -> Reported:
    """Hand each request the states of the next one of its batch, as far as that has any."""
    everyone = (*reported, *reported[:1])
    return tuple(_with_states(own, (*_states(other), *_states(own)[len(other) :])) for own, other in pairwise(everyone))


def _of_roots(reported: Reported) -> Reported:
    """Read rows of a tree as if there were one a request: every token gets the state of the root."""
    return tuple(_with_states(own, _states(own)[:1] * len(own)) for own in reported)


def _narrow(reported: Reported) -> Reported:
    return tuple(_with_states(own, tuple(one and one[:-1] for one in _states(own))) for own in reported)


def _of_the_first(reported: Reported) -> Reported:
    """Hand all requests of a batch the states of its first one, as far as that has any."""
    first = _states(reported[0]) if reported else ()
    return tuple(_with_states(own, (*first, *_states(own)[len(first) :])) for own in reported)


_WORKERS: tuple[tuple[str, str, Callable[..., ReferenceWorker]], ...] = (
    ("OWN-3100", "States are those of the iteration before.", StaleStates),
    ("OWN-3101", "States are one token early.", _reported(_early, ReferenceWorker)),
    ("OWN-3102", "States are one token late.", _reported(_late, ReferenceWorker)),
    ("OWN-3103", "States are those of the next request.", _reported(_of_neighbours, ReferenceWorker)),
    ("OWN-3104", "All tokens of an iteration have the state of its root.", _reported(_of_roots, ReferenceWorker)),
    ("OWN-3105", "States are a word too narrow.", _reported(_narrow, ReferenceWorker)),
    ("OWN-3106", "States are read by node number after the compaction.", CompactedStates),
    ("OWN-3107", "After a prefix that is there already, the state is not the prompt's.", FirstRowStates),
    ("OWN-3108", "Nothing is reported of the first token of a request that resumes.", SilentResumer),
)

_WORKERS_V1: tuple[tuple[str, str, Callable[..., ReferenceWorkerV1]], ...] = (
    ("OWN-3109", "V1: states are those of the next request.", _reported(_of_neighbours, ReferenceWorkerV1)),
    ("OWN-3110", "V1: states are one token early.", _reported(_early, ReferenceWorkerV1)),
    ("OWN-3111", "V1: no state is handed out of the token that ends a text.", ShortStatesV1),
    ("OWN-3114", "V1: states are one token late.", _reported(_late, ReferenceWorkerV1)),
    ("OWN-3115", "V1: states are those of the first request.", _reported(_of_the_first, ReferenceWorkerV1)),
)

_OPERATION = "gather_output_logprobs"

MUTANTS = (
    *(Mutant(number, _OPERATION, fault, unchanged, worker=kind) for number, fault, kind in _WORKERS),
    *(Mutant(number, _OPERATION, fault, unchanged, worker_v1=kind) for number, fault, kind in _WORKERS_V1),
)
