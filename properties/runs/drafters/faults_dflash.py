"""Faults in the loop that drafts blocks: in the features that become KV, in what starts a block, and in its counts."""

from dataclasses import replace

import numpy as np

from specsim.conformance.arrays import Array
from specsim.phases import DflashDraftInput
from specsim.properties.mutants.record import edits_of_sides, mutants_of_sides, with_facts


def of_requests(phase: DflashDraftInput, is_kept: Array) -> DflashDraftInput:
    """Return the requests of a phase that are kept, with their features."""
    rows = np.repeat(is_kept, phase.ctx_lens)
    names = ("req_pool_indices", "bonus_tokens", "ctx_lens", "draft_seq_lens")
    kept = {name: vars(phase)[name][is_kept] for name in names}
    return DflashDraftInput(target_hidden=phase.target_hidden[rows], **kept)


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


MUTANTS = (
    *edits_of_sides(
        ["dflash"],
        """
        @@ prepare_block_draft in BlockSide._project
        OWN-1740 The features of the verify before become KV.
        - self._store(positions, slots, phase.target_hidden, pools)
        + before, self.before = vars(self).get("before", phase.target_hidden), phase.target_hidden
        + features = before[:total] if len(before) >= total else phase.target_hidden
        + self._store(positions, slots, features, pools)
        OWN-1744 The last feature of a block that is accepted whole is lost.
          expect_phase(phase, PhaseTag.DFLASH_DRAFT)
        + is_whole = (phase.ctx_lens == self.parameters.block_size) & (phase.draft_seq_lens > phase.ctx_lens)
        + phase = without_last_rows(phase, is_whole)
        OWN-1746 Chunks after the first never become KV of the draft.
          expect_phase(phase, PhaseTag.DFLASH_DRAFT)
        + rows, ends, counts = phase.req_pool_indices.tolist(), phase.draft_seq_lens.tolist(), phase.ctx_lens.tolist()
        + starts = [(row, end - count) for row, end, count in zip(rows, ends, counts)]
        + is_later = np.array([start in vars(self).get("seen", ()) for start in starts], dtype=np.bool_)
        + self.seen = set(zip(rows, ends))
        + phase = of_requests(phase, ~(is_later & (phase.ctx_lens > 1)))
        OWN-1747 A request gets the features of its neighbour.
        - self._store(positions, slots, phase.target_hidden, pools)
        + turn = int(counts[0]) if len(set(counts.tolist())) == 1 else 0
        + self._store(positions, slots, np.roll(phase.target_hidden, -turn, axis=0), pools)
        OWN-1748 As many features as accepted drafts become KV.
          expect_phase(phase, PhaseTag.DFLASH_DRAFT)
        + phase = without_last_rows(phase, phase.ctx_lens > 1)
        @@ prepare_block_draft in BlockSide._store
        OWN-1741 A position gets the features of the one before.
        - features => np.concatenate([features[:1], features[:-1]])
        OWN-1742 A position gets the features of the one after it.
        - features => np.concatenate([features[1:], features[-1:]])
        @@ prepare_block_draft in BlockSide.follow_ragged
        OWN-1743 The features of requests that end are lost.
        - self._project(committed, pools)
        + is_kept = np.isin(everyone.req_pool_indices, going_on.req_pool_indices)
        + self._project(of_requests(committed, is_kept), pools)
        OWN-1745 Only prompts become KV of the draft.
        - self._project(committed, pools)
        @@ prepare_block_draft in WaitingRoots.take
        OWN-1749 A block starts with the root of its neighbour.
        - self.bonus_tokens[row] => self.bonus_tokens[np.roll(row, -1)]
        @@ prepare_block_draft in BlockSide._committed_ragged
        OWN-1750 A block starts with the first token of the last output.
        - laid_out.bonus_tokens => everyone.input_ids[np.cumsum(counts) - counts]
        OWN-1753 All requests get the features at the front of the batch.
        - everyone.hidden_states
        + everyone.hidden_states[np.concatenate([np.arange(count) for count in counts.tolist()])]
        @@ prepare_block_draft in BlockSide
        OWN-1751 After a block that was accepted whole the next one lies early.
          expect_phase(start, PhaseTag.DFLASH_DRAFT)
        + is_late = np.isin(start.req_pool_indices, vars(self).get("whole", ()))
        + start = replace(start, draft_seq_lens=start.draft_seq_lens - is_late.astype(np.int32))
        - self._project(committed, pools)
        + self.whole = committed.req_pool_indices[committed.ctx_lens == self.parameters.block_size]
        + self._project(committed, pools)
        """,
        of_requests=of_requests,
        replace=replace,
        without_last_rows=without_last_rows,
    ),
    *mutants_of_sides(
        "prepare_block_draft",
        ["dflash"],
        [("OWN-1752", "A request counts drafts after its end.", with_facts(counts_only_output=False))],
    ),
    *edits_of_sides(
        ["dflash_v2"],
        """
        @@ fill_block_tokens in DflashSide.follow
        OWN-1754 Ahead, as many features as accepted drafts become KV.
        - self._project(committed, pools) => self._project(without_last_rows(committed, committed.ctx_lens > 1), pools)
        @@ fill_block_tokens in DflashSide._committed
        OWN-1755 Ahead, a block starts with what follows the last root.
        - phase.bonus_tokens.astype(np.int64)
        + phase.predict.reshape(len(start.req_pool_indices), -1)[:, 0].astype(np.int64)
        OWN-1756 Ahead, a request gets the features of its neighbour.
        - require_present("hidden_states", phase.hidden_states)
        + np.roll(require_present("hidden_states", phase.hidden_states), -self.parameters.block_size, axis=0)
        OWN-1757 Ahead, a position gets the features of the one before.
        - require_present("hidden_states", phase.hidden_states)
        + np.roll(require_present("hidden_states", phase.hidden_states), 1, axis=0)
        OWN-1758 Ahead, a block starts with the root of its neighbour.
        - phase.bonus_tokens.astype(np.int64) => np.roll(phase.bonus_tokens.astype(np.int64), 1)
        """,
        without_last_rows=without_last_rows,
    ),
)
