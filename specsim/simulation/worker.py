"""What the engine asks of a worker, whatever it computes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from specsim.config import PoolSizes, SpecConfig
from specsim.host.sampling import SamplingParameters
from specsim.phases import Phase
from specsim.simulation.models.language_models import LanguageModel
from specsim.simulation.scheduler import SlotRange
from specsim.simulation.synchronous import IterationLedger


@dataclass(frozen=True)
class Iteration:
    """What one decode iteration produced, on the host.

    ``tokens`` int32 [request, node] holds each request's output tokens at the front; both counts are int32 [request].
    """

    tokens: NDArray[np.int32]
    num_accepted_drafts: NDArray[np.int32]
    num_accepted_tokens: NDArray[np.int32]


class Worker(Protocol):
    """Draft, verify and extend for a batch of request rows; all state a request carries lies in the worker, by row."""

    name: str
    device: str
    config: SpecConfig
    model: LanguageModel
    sizes: PoolSizes

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""

    def assign_sampling(self, rows: Sequence[int], parameters: Sequence[SamplingParameters | None]) -> None:
        """Keep how joining requests are sampled; None is greedy. Called before their prefill."""

    def prefill(self, rows: Sequence[int], prompts: Sequence[Sequence[int]]) -> list[int]:
        """Run the prompts of new requests and return the first output token of each."""

    def decode(self, rows: Sequence[int]) -> Iteration:
        """Run one iteration."""

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, as NumPy arrays."""

    def state(self) -> dict[str, Any]:
        """Return the carried state as NumPy arrays: maps, pools and relay buffers by name."""


@runtime_checkable
class SynchronousWorker(Worker, Protocol):
    """A V1 worker: it allocates and frees slots, and ends requests, inside an iteration.

    What its iterations return is cut at the ends of requests, and has been appended and committed already.
    """

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker; called once, before the first prefill."""
