"""A worker that keeps what its iterations hand over, whenever they run."""

from collections.abc import Sequence
from typing import Any

from specsim.host.choice import TokenChoice
from specsim.phases import Phase
from specsim.simulation.logprobs import Reported
from specsim.simulation.memory import SlotRange
from specsim.simulation.numbers import Steps
from specsim.simulation.requests import PromptChunk
from specsim.simulation.worker import Iteration, Worker, is_mixing, is_telling

Phases = tuple[Phase, ...]


class RecordingWorker:
    """A V2 worker that keeps what the phases of each iteration handed over until somebody compares it.

    Overlapped, a step may run no iteration, that of the step before, or two. The request-to-token map is read where
    the iteration runs, as on a device, and not at a moment of its own.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.name, self.device = worker.name, worker.device
        self.config, self.model, self.sizes = worker.config, worker.model, worker.sizes
        self.mixes_drafts = is_mixing(worker)
        self._handed_over: list[Phases] = []

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._worker.assign_slots(ranges)

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._worker.assign_choices(rows, choices)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts and return the token after each."""
        return self._worker.prefill(rows, chunks)

    def decode(self, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration, and keep what its phases handed over."""
        iteration = self._worker.decode(rows, num_steps)
        self._handed_over.append(self._worker.phases())
        return iteration

    def phases(self) -> Phases:
        """Return what the phases of the last iteration handed over."""
        return self._worker.phases()

    def state(self) -> dict[str, Any]:
        """Return the carried state by name."""
        return self._worker.state()

    def told(self) -> Reported:
        """Return what is reported of the tokens of the last prefill or iteration: nothing, if nothing is reported."""
        return self._worker.told() if is_telling(self._worker) else ()

    def take(self) -> list[Phases]:
        """Return what was handed over since somebody asked, an entry an iteration."""
        taken, self._handed_over = self._handed_over, []
        return taken
