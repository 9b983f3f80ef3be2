"""Faults in what workers tell of the tokens that they output, which no operation can have."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from specsim.host.choice import TokenChoice
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.logprobs import Told, most_top
from specsim.simulation.requests import PromptChunk
from specsim.simulation.worker import Iteration


class LateTeller(ReferenceWorker):
    """Tells of an iteration what belongs to the one before."""

    _before: Told = ()

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration, and keep its scores for the next."""
        iteration = super().decode(rows, num_steps)
        now = self._told
        if len(self._before) == len(now):
            self._told = self._before
        self._before = now
        return iteration


class NeighbourTeller(ReferenceWorker):
    """Tells each request what belongs to the next one of its batch."""

    def told(self) -> Told:
        """Return everything one place on."""
        return (*self._told[1:], *self._told[:1])


class LateStarter(ReferenceWorker):
    """Tells nothing of the token behind a prompt."""

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts and forget their scores."""
        following = super().prefill(rows, chunks)
        self._told = ((),) * len(rows)
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


class RootTeller(ReferenceWorker):
    """Tells of an iteration only what its first tokens are."""

    def told(self) -> Told:
        """Return the first entry of each request."""
        return tuple(own[:1] for own in self._told)


_WORKERS: tuple[tuple[str, str, Callable[..., ReferenceWorker]], ...] = (
    ("OWN-1391", "Scores are those of the iteration before.", LateTeller),
    ("OWN-1392", "Scores are those of the next request.", NeighbourTeller),
    ("OWN-1393", "Nothing is told of the first token.", LateStarter),
    ("OWN-1394", "Alternatives are as many as somebody else asks for.", GenerousTeller),
    ("OWN-1395", "Of what an iteration accepts only the first token is told of.", RootTeller),
)

MUTANTS = tuple(
    Mutant(number, "gather_output_logprobs", fault, unchanged, worker=kind) for number, fault, kind in _WORKERS
)
