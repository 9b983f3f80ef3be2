"""What the engine asks of a worker, whatever it computes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require, require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.counts import count_draft_nodes, count_tokens
from specsim.host.choice import TokenChoice
from specsim.host.truncation import Truncation
from specsim.phases import Phase
from specsim.simulation.handing_over import Contents, PoolForm
from specsim.simulation.logprobs import Reported
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.protocol import Model
from specsim.simulation.numbers import Steps, drafts_of_requests
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.verification import Verified, VerifyLimits


@dataclass(frozen=True)
class Proposals:
    """How many drafts each request was proposed, and on how many levels they lie; both [request]."""

    num_drafts: tuple[int, ...]
    num_levels: tuple[int, ...]

    @classmethod
    def of_depths(cls, depths: NDArray[Any], own_steps: Sequence[int] | None = None) -> "Proposals":
        """Return those of trees, depths of their nodes integer [request, node], cut after each request's own steps.

        Every node of a tree that is not cut counts but the root, those that hang from nothing too.
        """
        if own_steps is None:
            num_drafts = int(count_draft_nodes(depths.shape[1]))
            return cls((num_drafts,) * len(depths), tuple(depths.max(axis=1).tolist()))
        is_kept = (depths > 0) & (depths <= np.array(own_steps, dtype=np.int64)[:, None])
        num_levels = (depths * is_kept).max(axis=1, initial=0)
        return cls(tuple(is_kept.sum(axis=1).tolist()), tuple(num_levels.tolist()))


@dataclass(frozen=True)
class Iteration:
    """What one decode iteration produced, on the host.

    ``tokens`` int32 [request, node] holds each request's output tokens at the front; both counts are int32 [request].
    Without ``proposals`` every request was proposed what the sizes of the iteration say; ``verified`` has what was
    admitted where that was limited.
    """

    tokens: NDArray[np.int32]
    num_accepted_drafts: NDArray[np.int32]
    num_accepted_tokens: NDArray[np.int32]
    proposals: Proposals | None = None
    verified: Verified | None = None

    def check(self, num_requests: int) -> None:
        """Raise AssertionError unless every request has a row and a count of each kind, and its tokens fit."""
        for name in ("num_accepted_drafts", "num_accepted_tokens"):
            got = vars(self)[name].shape
            require(got == (num_requests,), f"shape of {name} that decode returns", got, (num_requests,))
        got, most = self.tokens.shape, int(self.num_accepted_tokens.max(initial=0))
        fits = len(got) == 2 and got[0] == num_requests and got[1] >= most
        require(fits, "shape of the tokens that decode returns", got, f"({num_requests}, at least {most})")

    @classmethod
    def of(
        cls,
        truncation: Truncation,
        num_nodes: int,
        proposals: Proposals | None = None,
        verified: Verified | None = None,
    ) -> "Iteration":
        """Return what is left of a verify where the ends of requests cut it: the counts are those of the batch."""
        tokens = np.zeros((len(truncation.appended), num_nodes), dtype=np.int32)
        for request, appended in enumerate(truncation.appended):
            tokens[request, : len(appended)] = appended
        num_accepted_drafts = truncation.batch_num_accepted_drafts
        return cls(tokens, num_accepted_drafts, count_tokens(num_accepted_drafts), proposals, verified)

    def proposals_at(self, config: SpecConfig, own_steps: Sequence[int] | None = None) -> Proposals:
        """Return what was proposed in an iteration of these sizes, whose requests drafted steps of their own.

        Raises
        ------
        AssertionError
            A tree was cut, and the worker does not say how many of its nodes were left.
        """
        count = len(self.num_accepted_drafts)
        if self.proposals is not None:
            return self.proposals
        if own_steps is None:
            drafts = int(count_draft_nodes(config.num_draft_tokens))
            return Proposals((drafts,) * count, (config.num_steps,) * count)
        num_drafts = require_present("proposals of cut trees", drafts_of_requests(config, own_steps))
        return Proposals(num_drafts, tuple(own_steps))


class Worker(Protocol):
    """Draft, verify and extend for a batch of request rows; all state a request carries lies in the worker, by row."""

    name: str
    device: str
    config: SpecConfig
    model: Model[Any]
    sizes: PoolSizes

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen. Called before their prefill."""

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of the prompts of joining requests and return the token after each chunk.

        KV of the positions before a chunk is in the slots of the row. After the last chunk of a prompt the token is
        the first output token, after any other the prompt's own.
        """

    def decode(self, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration, which may draft fewer steps than its configuration says.

        Workers that do not say ``mixes_drafts`` get one number for all requests, and only where drafts are chains.
        Without rows it runs an idle batch: an engine asks for that while other ranks work, and nothing may come of it.
        """

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, as NumPy arrays."""

    def state(self) -> dict[str, Any]:
        """Return the carried state as NumPy arrays: maps, pools and relay buffers by name."""


@runtime_checkable
class ExportingWorker(Worker, Protocol):
    """A worker that hands out what it has of a text, for prefix stores, other engines and later runs."""

    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[NDArray[Any]]]:
        """Return copies of what lies in some slots of a row, under the names of ``state``, and of the row's states.

        Entries of layers with a sliding window are 0 where a slot has no SWA slot. The copies are made after everything
        that was launched: a tree's accepted path has moved to its slots.
        """


@runtime_checkable
class LoadingWorker(ExportingWorker, Protocol):
    """A worker that goes on with a text of which another one has computed the front."""

    @property
    def pool_form(self) -> PoolForm:
        """How it stores a text."""

    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Write what another worker has exported into some slots of a row, and the row's states.

        Called before the first forward of the request, when the slots are in the map. Rows of ``swa_kv`` belong to the
        last of the slots.
        """


@runtime_checkable
class MapReader(Worker, Protocol):
    """A worker whose iterations read the request-to-token map at one moment, and use what they read at another."""

    def read_map(self) -> Any:
        """Return all that an iteration reads of the map, as it is."""

    def decode_from(self, read: Any, rows: Sequence[int], num_steps: Steps = None) -> Iteration:
        """Run one iteration on what was read of the map."""


class MixingWorker(Worker, Protocol):
    """A worker that may draft another number of steps for each request of an iteration.

    ``decode`` takes one number a row, from 0 to those of the configuration. A request accepts no draft deeper than its
    own number; of 0 steps it outputs the token after its root.
    """

    mixes_drafts: bool


def is_mixing(worker: object) -> TypeGuard[MixingWorker]:
    """Return whether a worker may draft another number of steps for each request."""
    return bool(getattr(worker, "mixes_drafts", False))


class SchedulingWorker(Worker, Protocol):
    """A worker that may verify fewer drafts than it has, as many as a budget admits (semantics Q.1).

    Where it says so, ``decode`` takes ``limits`` too, and iterations that had some return what was ``verified``.
    """

    schedules_verify: bool

    def decode(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> Iteration:
        """Run one iteration that verifies so many drafts."""


def is_scheduling(worker: object) -> TypeGuard[SchedulingWorker]:
    """Return whether a worker may verify fewer drafts than it has."""
    return bool(getattr(worker, "schedules_verify", False))


class TellingWorker(Worker, Protocol):
    """A worker that tells users about the tokens that it outputs.

    One that tells nothing with some of its drafts says so by an attribute ``tells``.
    """

    def told(self) -> Reported:
        """Return what is reported of the tokens of the last prefill or iteration, everything that was accepted."""


def is_telling(worker: object) -> TypeGuard[TellingWorker]:
    """Return whether a worker tells users about the tokens that it outputs."""
    return hasattr(worker, "told") and bool(getattr(worker, "tells", True))


@runtime_checkable
class ResizableWorker(Worker, Protocol):
    """A worker whose memory another one of other sizes can go on in, and give back later.

    The two share the request-to-token map, the pools, recurrent states and the SWA slots of full ones, in place:
    either finds there what the other has written since. They take turns, and between two turns every request loses its
    row, so that nothing that waits by row to start a draft is handed over; texts of the prefix cache keep their slots.
    """

    def resized(self, config: Any) -> Worker:
        """Return a worker of these sizes on the model and in the memory of this one.

        An algorithm with parameters of its own takes these in the place of sizes, here as when a worker is made.
        """


@runtime_checkable
class SelectiveWorker(Worker, Protocol):
    """A worker that does not take every request."""

    def check_request(self, request: Request) -> None:
        """Raise SpecRejection for a request that it cannot serve. Called when the request is submitted."""


@runtime_checkable
class PlainlyKeyedWorker(Worker, Protocol):
    """A worker whose caches hold at a position what its own token says, so that tokens are keys of the prefix cache.

    Elsewhere the draft's entry of a position consumed the token after it, and pairs of tokens are the keys.
    """

    has_plain_keys: bool


@runtime_checkable
class SynchronousWorker(Worker, Protocol):
    """A V1 worker: it allocates and frees slots, and ends requests, inside an iteration.

    What its iterations return is cut at the ends of requests, and has been appended and committed already.
    """

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker; called once, before the first prefill."""
