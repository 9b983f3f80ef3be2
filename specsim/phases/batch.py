"""The batch of a V1 engine: what every forward reads beside the object of its phase."""

from dataclasses import dataclass
from typing import Any

from specsim.phases.kinds import Phase
from specsim.phases.tags import ForwardMode


@dataclass(frozen=True)
class Batch:
    """The running requests, their lengths, and what the next phase reads.

    A phase that needs another view of the batch works on a copy, so that nothing has to be put back afterwards.
    ``req_pool_indices`` and ``seq_lens`` are int64 [request]; ``info`` is the phase object that is installed.
    """

    mode: ForwardMode
    req_pool_indices: Any
    seq_lens: Any
    info: Phase
