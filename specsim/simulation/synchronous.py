"""What a V1 worker does to the scheduler's books inside an iteration: slots, committed lengths, ends of requests."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require
from specsim.counts import draft_end
from specsim.host.metrics import count_verify
from specsim.host.truncation import Truncation
from specsim.simulation.memory import SlotRange, with_swa_slots
from specsim.simulation.requests import TOKEN_TEXT, Request
from specsim.simulation.scheduler_protocol import SchedulerProtocol

Truncate = Callable[..., Truncation]


class IterationLedger:
    """The running requests of a synchronous engine, in the order of their batch."""

    def __init__(self, scheduler: SchedulerProtocol) -> None:
        self._scheduler = scheduler
        self._appended: Sequence[Sequence[int]] = ()

    def check_tokens(self, tokens: NDArray[np.int32]) -> None:
        """Raise AssertionError unless a worker returns for each request the tokens that its iteration has output.

        Parameters
        ----------
        tokens : int32 [request, node]
            What ``decode`` returned; each request's output tokens stand at the front.
        """
        for place, appended in enumerate(self._appended):
            got = tokens[place, : len(appended)].tolist()
            require(got == [*appended], f"tokens of request {place} that decode returns", got, [*appended])

    def borrow_draft_slots(self, topk: int, num_steps: int) -> list[SlotRange]:
        """Return the slots of each request's draft, owned by no one: the allocator is as it was before.

        The next allocation may hand the same slots out again, and nothing may be allocated or freed before it. Beams
        of a tree lie on pages of their own, where a page holds several slots.

        Raises
        ------
        SpecRejection
            OUT_OF_SLOTS.

        Notes
        -----
        Source: semantics A.9.
        """
        slots = self._scheduler.memory.allocator
        before = slots.backup()
        committed = [request.num_committed for request in self.requests]
        ranges = self._extend([draft_end(length, topk, num_steps, slots.page_size) for length in committed])
        slots.restore(before)
        return ranges

    def allocate_verify_slots(self, count: int) -> list[SlotRange]:
        """Allocate ``count`` slots a request, for the positions from its committed length.

        Raises
        ------
        SpecRejection
            OUT_OF_SLOTS.
        """
        return self._extend([request.num_committed + count for request in self.requests])

    def free(self, slots: NDArray[np.int64]) -> None:
        """Take slots back that no position keeps."""
        self._scheduler.memory.free(slots.tolist())

    def end_requests(
        self,
        accept_index: NDArray[np.int32],
        predict: NDArray[np.int32],
        truncate_at_stop: Truncate,
        counts_only_output: bool = False,
    ) -> Truncation:
        """Append the output tokens up to the first that ends each request, and count the verify.

        A request counts the drafts that the target accepted, also those after its end; with ``counts_only_output`` it
        counts those that were output, and keeps no histogram of them.

        Notes
        -----
        Source: semantics A.14, B.11.
        """
        requests = self.requests
        truncation = truncate_at_stop(
            accept_index,
            predict,
            [request.rules for request in requests],
            [request.output for request in requests],
            [len(request.prompt) for request in requests],
            TOKEN_TEXT,
            [request.matcher for request in requests],
        )
        self._appended = truncation.appended
        for place, request in enumerate(requests):
            request.output = [*request.output, *truncation.appended[place]]
            request.finish = truncation.finishes[place]
            if counts_only_output:
                counted = count_verify(request.counters, int(truncation.batch_num_accepted_drafts[place]))
                request.counters = replace(counted, histogram=())
            else:
                request.counters = count_verify(request.counters, int(truncation.request_num_accepted_drafts[place]))
        return truncation

    def commit(self, kept_slots: Sequence[Sequence[int]], is_caught_up: bool = False) -> None:
        """Give each request the slots of its accepted positions; what is allocated is what is committed.

        ``is_caught_up`` says that the draft's KV of these positions is final also where a request ended.
        """
        for request, slots in zip(self.requests, kept_slots, strict=True):
            if request.finish is not None and not is_caught_up:
                request.num_caught_up = request.num_committed
            request.holding.slots.extend(slots)
            request.holding.books = request.holding.books.fill(len(request.slots))

    @property
    def requests(self) -> Sequence[Request]:
        """The requests of the batch."""
        return self._scheduler.running

    def _extend(self, ends: Sequence[int]) -> list[SlotRange]:
        """Allocate the positions of each request from its committed length to an end."""
        requests = self.requests
        starts = [request.num_committed for request in requests]
        last_slots = [request.holding.last_slot for request in requests]
        given = self._scheduler.memory.allocator.extend(starts, ends, last_slots)
        ranges = [
            SlotRange(row=request.row, start=start, end=end, slots=tuple(own))
            for request, start, end, own in zip(requests, starts, ends, given, strict=True)
        ]
        return with_swa_slots(self._scheduler.memory, ranges)
