"""Faults in the loop that drafts blocks: in the features that become KV, in what starts a block, and in its counts."""

from dataclasses import replace

import numpy as np

from specsim.conformance.arrays import Array
from specsim.phases import DflashDraftInput
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_of_sides, with_facts
from specsim.simulation.draft_sides.dflash import BlockSide

_CHECKED, _PROJECTED = "expect_phase(phase, PhaseTag.DFLASH_DRAFT)", "self._project(committed, pools)"
_STORED = "self._store(positions, slots, phase.target_hidden, pools)"


def of_requests(phase: DflashDraftInput, is_kept: Array) -> DflashDraftInput:
    """Return the requests of a phase that are kept, with their features."""
    rows = np.repeat(is_kept, phase.ctx_lens)
    return DflashDraftInput(
        phase.req_pool_indices[is_kept],
        phase.bonus_tokens[is_kept],
        phase.target_hidden[rows],
        phase.ctx_lens[is_kept],
        phase.draft_seq_lens[is_kept],
    )


def without_last_rows(phase: DflashDraftInput, is_shorter: Array) -> DflashDraftInput:
    """Return a phase in which some requests lose their last feature."""
    lost = (np.cumsum(phase.ctx_lens) - 1)[is_shorter]
    fewer = is_shorter.astype(np.int32)
    return replace(
        phase,
        target_hidden=np.delete(phase.target_hidden, lost, axis=0),
        ctx_lens=phase.ctx_lens - fewer,
        draft_seq_lens=phase.draft_seq_lens - fewer,
    )


_LENGTHS_OF_THE_VERIFY_BEFORE = edited(
    "expect_phase(start, PhaseTag.DFLASH_DRAFT)",
    """
    is_late = np.isin(start.req_pool_indices, vars(self).get("whole", ()))
    start = replace(start, draft_seq_lens=start.draft_seq_lens - is_late.astype(np.int32))
    """,
    _PROJECTED,
    f"""
    self.whole = committed.req_pool_indices[committed.ctx_lens == self.parameters.block_size]
    {_PROJECTED}
    """,
    within=BlockSide,
    replace=replace,
)

_FEATURES_OF_THE_VERIFY_BEFORE = edited(
    _STORED,
    """
    before, self.before = vars(self).get("before", phase.target_hidden), phase.target_hidden
    features = before[:total] if len(before) >= total else phase.target_hidden
    self._store(positions, slots, features, pools)
    """,
    within=BlockSide._project,
)

_FIRST_CHUNK_ALONE = edited(
    _CHECKED,
    """
    rows, ends, counts = phase.req_pool_indices.tolist(), phase.draft_seq_lens.tolist(), phase.ctx_lens.tolist()
    starts = [(row, end - count) for row, end, count in zip(rows, ends, counts)]
    is_later = np.array([start in vars(self).get("seen", ()) for start in starts], dtype=np.bool_)
    self.seen = set(zip(rows, ends))
    phase = of_requests(phase, ~(is_later & (phase.ctx_lens > 1)))
    """,
    within=BlockSide._project,
    of_requests=of_requests,
)

_ENDED_ONES_ARE_NOT_PROJECTED = edited(
    _PROJECTED,
    """
    is_kept = np.isin(everyone.req_pool_indices, going_on.req_pool_indices)
    self._project(of_requests(committed, is_kept), pools)
    """,
    within=BlockSide.follow_ragged,
    of_requests=of_requests,
)

_WHOLE_BLOCKS_ARE_NOT_PROJECTED = edited(
    _CHECKED,
    """
    is_whole = (phase.ctx_lens == self.parameters.block_size) & (phase.draft_seq_lens > phase.ctx_lens)
    phase = without_last_rows(phase, is_whole)
    """,
    within=BlockSide._project,
    without_last_rows=without_last_rows,
)

_FEATURES_OF_THE_NEIGHBOUR = edited(
    _STORED,
    """
    turn = int(counts[0]) if len(set(counts.tolist())) == 1 else 0
    self._store(positions, slots, np.roll(phase.target_hidden, -turn, axis=0), pools)
    """,
    within=BlockSide._project,
)

_FAULTS = (
    ("OWN-1740", "The features of the verify before become KV.", _FEATURES_OF_THE_VERIFY_BEFORE),
    ("OWN-1741", "A position gets the features of the one before.",
     edited("features", "np.concatenate([features[:1], features[:-1]])", within=BlockSide._store)),
    ("OWN-1742", "A position gets the features of the one after it.",
     edited("features", "np.concatenate([features[1:], features[-1:]])", within=BlockSide._store)),
    ("OWN-1743", "The features of requests that end are lost.", _ENDED_ONES_ARE_NOT_PROJECTED),
    ("OWN-1744", "The last feature of a block that is accepted whole is lost.", _WHOLE_BLOCKS_ARE_NOT_PROJECTED),
    ("OWN-1745", "Only prompts become KV of the draft.", edited(_PROJECTED, "", within=BlockSide.follow_ragged)),
    ("OWN-1746", "Chunks after the first never become KV of the draft.", _FIRST_CHUNK_ALONE),
    ("OWN-1747", "A request gets the features of its neighbour.", _FEATURES_OF_THE_NEIGHBOUR),
    ("OWN-1748", "As many features as accepted drafts become KV.",
     edited(_CHECKED, "phase = without_last_rows(phase, phase.ctx_lens > 1)", within=BlockSide._project,
            without_last_rows=without_last_rows)),
    ("OWN-1749", "A block starts with the root of its neighbour.",
     edited("self.bonus_tokens[row]", "self.bonus_tokens[np.roll(row, -1)]", within="WaitingRoots.take")),
    ("OWN-1750", "A block starts with the first token of the last output.",
     edited("laid_out.bonus_tokens", "everyone.input_ids[np.cumsum(counts) - counts]",
            within=BlockSide._committed_ragged)),
    ("OWN-1751", "After a block that was accepted whole the next one lies early.", _LENGTHS_OF_THE_VERIFY_BEFORE),
    ("OWN-1752", "A request counts drafts after its end.", with_facts(counts_only_output=False)),
    ("OWN-1753", "All requests get the features at the front of the batch.",
     edited("everyone.hidden_states",
            "everyone.hidden_states[np.concatenate([np.arange(count) for count in counts.tolist()])]",
            within=BlockSide._committed_ragged)),
)  # fmt: skip

_REPORTED = 'require_present("hidden_states", phase.hidden_states)'
_BONUS = "phase.bonus_tokens.astype(np.int64)"

_FAULTS_AHEAD = (
    ("OWN-1754", "Ahead, as many features as accepted drafts become KV.",
     edited(_PROJECTED, "self._project(without_last_rows(committed, committed.ctx_lens > 1), pools)",
            within="DflashSide.follow", without_last_rows=without_last_rows)),
    ("OWN-1755", "Ahead, a block starts with what follows the last root.",
     edited(_BONUS, "phase.predict.reshape(len(start.req_pool_indices), -1)[:, 0].astype(np.int64)",
            within="DflashSide._committed")),
    ("OWN-1756", "Ahead, a request gets the features of its neighbour.",
     edited(_REPORTED, f"np.roll({_REPORTED}, -self.parameters.block_size, axis=0)", within="DflashSide._committed")),
    ("OWN-1757", "Ahead, a position gets the features of the one before.",
     edited(_REPORTED, f"np.roll({_REPORTED}, 1, axis=0)", within="DflashSide._committed")),
    ("OWN-1758", "Ahead, a block starts with the root of its neighbour.",
     edited(_BONUS, f"np.roll({_BONUS}, 1)", within="DflashSide._committed")),
)  # fmt: skip

MUTANTS = (
    *mutants_of_sides("prepare_block_draft", ["dflash"], _FAULTS),
    *mutants_of_sides("fill_block_tokens", ["dflash_v2"], _FAULTS_AHEAD),
)
