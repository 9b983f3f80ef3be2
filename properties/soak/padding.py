"""How a machine pads its forwards: by buckets that change while requests run, or as ranks that run together agree."""

from typing import Any

from specsim.counts import ceil_to
from specsim.properties.soak.setups import Setup
from specsim.simulation.events import Observer, Tag
from specsim.simulation.models.agreement import Agree, Agreement, ForwardKind

BUCKETS: tuple[tuple[int, ...], ...] = ((1, 2, 4, 8), (4, 8), (3, 6), (8,), (1,))
"""Sizes that batches are padded to; larger ones are multiples of the last, so that the last row pads nothing."""

ROWS_WHEN_IDLE = 2
"""Requests of padding on which an idle iteration runs, where others wait for its forwards."""


class Padding:
    """Decides how many rows the forwards of one engine are padded to: the ``agree`` of a ``PaddedModel``.

    Parameters
    ----------
    setup : Setup
        The machine.
    observer : callable
        Called with verifies with rows of padding, and of those in another bucket than the one before.

    Attributes
    ----------
    buckets : tuple of int
        Those of the forwards that follow.
    meeting : callable or None
        Decides in the place of buckets while ranks run together.
    """

    def __init__(self, setup: Setup, observer: Observer) -> None:
        self.buckets = BUCKETS[0]
        self.meeting: Agree | None = None
        self._widths = {ForwardKind.DRAFT_STEP: setup.config.topk, ForwardKind.VERIFY: setup.config.num_draft_tokens}
        self._observer = observer
        self._last: int | None = None

    def __call__(
        self, kind: ForwardKind, num_requests: int, num_tokens: int, num_tokens_per_req: int | None, layer: int = 0
    ) -> Agreement:
        """Return the rows of a forward."""
        agreed = self._agreed(kind, num_requests, num_tokens, num_tokens_per_req, layer)
        if kind is ForwardKind.VERIFY and num_tokens:
            if agreed.num_tokens > num_tokens:
                self._observer(Tag.PAD)
            if self._last not in (None, agreed.num_tokens):
                self._observer(Tag.BUCKET)
            self._last = agreed.num_tokens
        return agreed

    def _agreed(
        self, kind: ForwardKind, num_requests: int, num_tokens: int, width: int | None, layer: int
    ) -> Agreement:
        if self.meeting is not None:
            return self.meeting(kind, num_requests, num_tokens, width, layer)
        if not num_tokens:
            own = self._widths.get(kind, width) or 1
            return Agreement(ROWS_WHEN_IDLE * own, own)
        count = num_tokens if width is None else num_requests
        fitting = [bucket for bucket in self.buckets if bucket >= count]
        bucket = fitting[0] if fitting else ceil_to(count, self.buckets[-1])
        return Agreement(bucket * (width or 1), width)


def padded_model_of(worker: Any) -> Any:
    """Return the ``PaddedModel`` of a padded machine's worker."""
    return worker.model
