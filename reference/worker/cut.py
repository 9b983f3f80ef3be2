"""The cut: of a batch's trees, the nodes that a request has not been given steps for are none of its drafts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specsim.phases import VerifyInput
from specsim.simulation.numbers import NO_DRAFT
from specsim.topology import NONE


def cut_drafts(phase: VerifyInput, own_steps: Sequence[int]) -> VerifyInput:
    """Cut every tree after as many levels as its request drafts.

    Nodes deeper than that hang from nothing, so that no walk accepts them and no grammar reads them, and hold no token
    of a draft. Their places in the window stay: what the target writes there is what it writes of rejected drafts.

    Parameters
    ----------
    phase : VerifyInput
        The trees of one width.
    own_steps : sequence of int
        The depth of each request's deepest drafts, 0 for the root alone.

    Returns
    -------
    verify_input : VerifyInput
        The same trees without what is cut.

    Notes
    -----
    Source: semantics A.4b.
    """
    shape, deepest = phase.retrieve_index.shape, np.array(own_steps, dtype=np.int64)[:, None]
    depths = phase.positions.reshape(shape) - phase.seq_lens[:, None]
    is_draft = depths <= deepest
    return replace(
        phase,
        draft_token=np.where(is_draft, phase.draft_token.reshape(shape), NO_DRAFT).reshape(-1),
        retrieve_next_token=np.where(depths < deepest, phase.retrieve_next_token, NONE),
        retrieve_next_sibling=np.where(is_draft, phase.retrieve_next_sibling, NONE),
    )
