"""What the host sees of a verify: in V1 it waits for what was accepted, and lets requests end."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from specsim.assertion import require
from specsim.gpu.worker.transfer import download
from specsim.host.truncation import Truncation, truncate_at_stop
from specsim.phases import VerifyInput, VerifyOutput
from specsim.simulation.sides import SideFacts
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Proposals


def end_requests(
    verify_input: VerifyInput, phase: VerifyOutput, live: int, facts: SideFacts, ledger: IterationLedger
) -> tuple[Truncation, Proposals | None]:
    """Wait for what the live requests accepted, and let them end on the host (semantics J.1, steps 6 and 7)."""
    num_nodes = verify_input.num_draft_tokens
    predict, accept_index, num_accepted_drafts, *masks = download(
        [
            phase.predict[: live * num_nodes],
            phase.accept_index[:live],
            phase.num_accepted_drafts[:live],
            *proposed_trees(verify_input, live, facts),
        ]
    )
    truncation = ledger.end_requests(accept_index, predict, truncate_at_stop, facts.counts_only_output)
    got, expected = num_accepted_drafts.tolist(), truncation.request_num_accepted_drafts.tolist()
    require(got == expected, "num_accepted_drafts", got, expected)
    return truncation, proposals_of(masks)


def proposed_trees(phase: VerifyInput, live: int, facts: SideFacts) -> list[Tensor]:
    """Return the masks int32 [request, node, node] of live requests, where these alone say what is proposed."""
    if not facts.proposes_by_tree:
        return []
    num_nodes = phase.num_draft_tokens
    return [phase.tree_mask.view(-1, num_nodes, num_nodes)[:live].int()]


def proposals_of(masks: Sequence[np.ndarray[Any, Any]]) -> Proposals | None:
    """Return what trees propose whose masks the host has; None without any."""
    return Proposals.of_trees(masks[0].astype(np.bool_)) if masks else None
