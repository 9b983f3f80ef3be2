"""Trees that the host has grown, as the verify takes them: their links are read from their masks."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.ngram import NgramDraft
from specsim.operations.protocol import Operations
from specsim.phases import VerifyInput
from specsim.simulation.ngram import masks_of


def verify_input_of(
    drafts: Sequence[NgramDraft], num_nodes: int, seq_lens: Array, out_cache_loc: Array, operations: Operations[Array]
) -> VerifyInput:
    """Return the trees of a batch.

    Parameters
    ----------
    drafts : sequence of NgramDraft
        One a request, if there is any.
    num_nodes : int
        Nodes of each.
    seq_lens : int64 [request]
        Positions that are committed.
    out_cache_loc : int64 [request*node]
        Slots that the target writes.

    Notes
    -----
    Source: semantics A.13.
    """
    tree_mask = masks_of(drafts, num_nodes)
    links = operations.reconstruct_indices_from_tree_mask(tree_mask, seq_lens)
    return VerifyInput(
        draft_token=np.array([draft.tokens for draft in drafts], dtype=np.int64).reshape(-1),
        retrieve_index=links.retrieve_index,
        retrieve_next_token=links.retrieve_next_token,
        retrieve_next_sibling=links.retrieve_next_sibling,
        positions=links.positions,
        tree_mask=tree_mask.reshape(-1),
        out_cache_loc=out_cache_loc,
        seq_lens=seq_lens,
        num_draft_tokens=num_nodes,
    )
