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
from specsim.simulation.sides import SideFacts
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Proposals


def end_requests(
    verify_input: VerifyInput,
    phase: VerifyOutput,
    live: int,
    facts: SideFacts,
    ledger: IterationLedger,
    own_steps: Sequence[int] | None = None,
) -> tuple[Truncation, Proposals | None]:
    """Wait for what the live requests accepted, and let them end on the host (semantics J.1, steps 6 and 7)."""
    num_nodes = verify_input.num_draft_tokens
    predict, accept_index, num_accepted_drafts, *trees = download(
        [
            phase.predict[: live * num_nodes],
            phase.accept_index[:live],
            phase.num_accepted_drafts[:live],
            *proposed_trees(verify_input, live, facts, own_steps),
        ]
    )
    truncation = ledger.end_requests(accept_index, predict, truncate_at_stop, facts.counts_only_output)
    got, expected = num_accepted_drafts.tolist(), truncation.request_num_accepted_drafts.tolist()
    require(got == expected, "num_accepted_drafts", got, expected)
    return truncation, proposals_of(trees, own_steps)


def proposed_trees(
    phase: VerifyInput, live: int, facts: SideFacts, own_steps: Sequence[int] | None = None
) -> list[Tensor]:
    """Return what says how many drafts live requests have, where the sizes of the iteration do not.

    Of trees that are cut, the depths int32 [request, node]; of others, their masks int32 [request, node, node].
    """
    if own_steps is not None:
        return [depths_of(phase)[:live].int()]
    if not facts.proposes_by_tree:
        return []
    num_nodes = phase.num_draft_tokens
    return [phase.tree_mask.view(-1, num_nodes, num_nodes)[:live].int()]


def proposals_of(trees: Sequence[np.ndarray[Any, Any]], own_steps: Sequence[int] | None = None) -> Proposals | None:
    """Return what trees propose whose depths or masks the host has; None without any."""
    if own_steps is not None:
        return Proposals.of_depths(trees[0], own_steps)
    return Proposals.of_trees(trees[0].astype(np.bool_)) if trees else None
