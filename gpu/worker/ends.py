"""What the host sees of a verify: in V1 it waits for what was accepted, and lets requests end."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from specsim.assertion import require
from specsim.gpu.worker.cut import depths_of
from specsim.gpu.worker.transfer import download
from specsim.host.truncation import Truncation, truncate_at_stop
from specsim.phases import VerifyInput, VerifyOutput
from specsim.simulation.numbers import Widths
from specsim.simulation.sides import SideFacts
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Proposals


def end_requests(
    verify_input: VerifyInput,
    phase: VerifyOutput,
    live: int,
    facts: SideFacts,
    ledger: IterationLedger,
    widths: Widths,
) -> tuple[Truncation, Proposals | None]:
    """Wait for what the live requests accepted, and let them end on the host (semantics J.1, steps 6 and 7)."""
    num_nodes = verify_input.num_draft_tokens
    predict, accept_index, num_accepted_drafts, *trees = download(
        [
            phase.predict[: live * num_nodes],
            phase.accept_index[:live],
            phase.num_accepted_drafts[:live],
            *proposed_trees(verify_input, live, facts.branches(widths.config), widths.own_steps),
        ]
    )
    truncation = ledger.end_requests(accept_index, predict, truncate_at_stop, facts.counts_only_output)
    got, expected = num_accepted_drafts.tolist(), truncation.request_num_accepted_drafts.tolist()
    require(got == expected, "num_accepted_drafts", got, expected)
    return truncation, proposals_of(trees, widths.own_steps)


def proposed_trees(
    phase: VerifyInput, live: int, branches: int, own_steps: Sequence[int] | None = None
) -> list[Tensor]:
    """Return what says how many drafts live requests have, where the sizes of the iteration do not.

    It is the depth of each node, int32 [request, node], of trees and of what is cut.
    """
    return [] if own_steps is None and branches == 1 else [depths_of(phase)[:live].int()]


def proposals_of(trees: Sequence[np.ndarray[Any, Any]], own_steps: Sequence[int] | None = None) -> Proposals | None:
    """Return what trees propose whose depths the host has; None without any."""
    return Proposals.of_depths(trees[0], own_steps) if trees else None
