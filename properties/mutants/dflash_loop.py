"""Faults in the loop that drafts blocks: in the features that become KV, in what starts a block, and in its counts."""

from dataclasses import replace

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import count_drafts
from specsim.host.truncation import Truncation
from specsim.phases import DflashDraftInput, EagleDraftExtendInput, VerifyOutput
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.reference.worker.dflash import ReferenceDflashWorker
from specsim.reference.worker.dflash_v2 import ReferenceDflashWorkerV2
from specsim.reference.worker.pools import Pools


class FeaturesOfTheVerifyBefore(ReferenceDflashWorker):
    """Projects the features of a prefill or verify when the next one has run, at the positions of this one."""

    _before: Array | None = None

    def _project(self, phase: DflashDraftInput) -> None:
        before, self._before = self._before, phase.target_hidden
        if before is not None and len(before) >= len(phase.target_hidden):
            phase = replace(phase, target_hidden=before[: len(phase.target_hidden)])
        super()._project(phase)


class OneRowEarly(ReferenceDflashWorker):
    """Projects to each position the features of the one before."""

    def _project(self, phase: DflashDraftInput) -> None:
        features = phase.target_hidden
        super()._project(replace(phase, target_hidden=np.concatenate([features[:1], features[:-1]])))


class OneRowLate(ReferenceDflashWorker):
    """Projects to each position the features of the one behind: the draft cache is shifted, as EAGLE's is."""

    def _project(self, phase: DflashDraftInput) -> None:
        features = phase.target_hidden
        super()._project(replace(phase, target_hidden=np.concatenate([features[1:], features[-1:]])))


class EndedOnesAreNotProjected(ReferenceDflashWorker):
    """Leaves masks where a request ended, which the prefix cache shows to others."""

    def _project(self, phase: DflashDraftInput) -> None:
        ended = {request.row for request in self._ledger.requests if request.finish is not None}
        goes_on = np.array([row not in ended for row in phase.req_pool_indices.tolist()], dtype=np.bool_)
        super()._project(_of_requests(phase, goes_on))


class WholeBlocksAreNotProjected(ReferenceDflashWorker):
    """Loses the last row where everything was accepted."""

    def _project(self, phase: DflashDraftInput) -> None:
        is_whole = (phase.ctx_lens == self.parameters.block_size) & (phase.draft_seq_lens > phase.ctx_lens)
        for request in np.flatnonzero(~is_whole).tolist():
            super()._project(_of_requests(phase, np.arange(phase.num_requests) == request))
        for request in np.flatnonzero(is_whole).tolist():
            alone = _of_requests(phase, np.arange(phase.num_requests) == request)
            lengths = np.array([count_drafts(self.parameters.block_size)], dtype=np.int32)
            ends = alone.draft_seq_lens - alone.ctx_lens + lengths
            kept = alone.target_hidden[: int(lengths[0])]
            super()._project(replace(alone, ctx_lens=lengths, draft_seq_lens=ends, target_hidden=kept))


class PromptsAlone(ReferenceDflashWorker):
    """Projects nothing behind a verify."""

    def _committed(self, everyone: EagleDraftExtendInput) -> DflashDraftInput:
        phase = super()._committed(everyone)
        self._verified = phase.draft_seq_lens
        return phase

    _verified: Array | None = None

    def _project(self, phase: DflashDraftInput) -> None:
        if phase.draft_seq_lens is not self._verified:
            super()._project(phase)


class FirstChunkAlone(ReferenceDflashWorker):
    """Projects the first chunk of a prompt, or what follows a hit, and no chunk behind it."""

    _seen: frozenset[tuple[int, int]] = frozenset()

    def _project(self, phase: DflashDraftInput) -> None:
        ends = list(zip(phase.req_pool_indices.tolist(), phase.draft_seq_lens.tolist(), strict=True))
        starts = [(row, end - count) for (row, end), count in zip(ends, phase.ctx_lens.tolist(), strict=True)]
        is_prompt = phase.ctx_lens > 1
        is_later = np.array([start in self._seen for start in starts], dtype=np.bool_) & is_prompt
        self._seen = frozenset(ends)
        super()._project(_of_requests(phase, ~is_later))


class FeaturesOfTheNeighbour(ReferenceDflashWorker):
    """Gives each position what the next request of the batch has there, where both have as many."""

    def _project(self, phase: DflashDraftInput) -> None:
        counts = set(phase.ctx_lens.tolist())
        if len(counts) == 1:
            rolled = np.roll(phase.target_hidden, -int(phase.ctx_lens[0]), axis=0)
            phase = replace(phase, target_hidden=rolled)
        super()._project(phase)


class AsManyAsDrafts(ReferenceDflashWorker):
    """Projects a row for each accepted draft, and none for the root."""

    def _project(self, phase: DflashDraftInput) -> None:
        drafts = np.maximum(phase.ctx_lens - 1, 1).astype(np.int32)
        firsts = np.cumsum(phase.ctx_lens) - phase.ctx_lens
        rows = [np.arange(first, first + count) for first, count in zip(firsts, drafts, strict=True)]
        shorter = phase.draft_seq_lens - phase.ctx_lens + drafts
        features = phase.target_hidden[np.concatenate([np.zeros(0, dtype=np.int64), *rows])]
        super()._project(
            replace(phase, ctx_lens=drafts, draft_seq_lens=shorter.astype(np.int32), target_hidden=features)
        )


class RootsOfTheNeighbour(ReferenceDflashWorker):
    """Starts each block with the token that the next request of the batch output last."""

    def _started_from(self, row: Array) -> DflashDraftInput:
        phase = super()._started_from(row)
        return replace(phase, bonus_tokens=np.roll(phase.bonus_tokens, -1))


class RootsOfTheVerifyBefore(ReferenceDflashWorker):
    """Starts each block with the first token that the verify before output, as long as there are several."""

    def _committed(self, everyone: EagleDraftExtendInput) -> DflashDraftInput:
        phase = super()._committed(everyone)
        firsts = np.cumsum(phase.ctx_lens) - phase.ctx_lens
        return replace(phase, bonus_tokens=everyone.input_ids[firsts].astype(np.int64))


class LengthsOfTheVerifyBefore(ReferenceDflashWorker):
    """Drafts a position too early where a whole block was accepted."""

    _whole_rows: frozenset[int] = frozenset()

    def _committed(self, everyone: EagleDraftExtendInput) -> DflashDraftInput:
        phase = super()._committed(everyone)
        is_whole = phase.ctx_lens == self.parameters.block_size
        self._whole_rows = frozenset(phase.req_pool_indices[is_whole].tolist())
        return phase

    def _started_from(self, row: Array) -> DflashDraftInput:
        phase = super()._started_from(row)
        late = np.array([one in self._whole_rows for one in row.tolist()], dtype=np.int32)
        return replace(phase, draft_seq_lens=phase.draft_seq_lens - late)


class UncutCounts(ReferenceDflashWorker):
    """Counts drafts behind the end of a request, and a histogram of them."""

    def _end_requests(self, phase: VerifyOutput) -> Truncation:
        truncate = self._operations.truncate_at_stop
        return self._ledger.end_requests(phase.accept_index, phase.predict, truncate)


class FeaturesBehindTheEnd(ReferenceDflashWorker):
    """Takes the features of every request from the front of the batch, one row after another."""

    def _committed(self, everyone: EagleDraftExtendInput) -> DflashDraftInput:
        phase = super()._committed(everyone)
        firsts = np.concatenate([np.arange(count) for count in phase.ctx_lens.tolist()])
        return replace(phase, target_hidden=phase.target_hidden[firsts])


class DraftsForTokens(ReferenceDflashWorkerV2):
    """Ahead, projects a row for each accepted draft, and none for the last of them."""

    def _committed(self, row: Array, lengths: Array, phase: VerifyOutput) -> DflashDraftInput:
        committed = super()._committed(row, lengths, phase)
        counts = np.maximum(phase.num_accepted_drafts, 1).astype(np.int32)
        rows = [slice(end - count, end - count + own) for end, count, own in _spans(committed.ctx_lens, counts)]
        features = np.concatenate([committed.target_hidden[:0], *(committed.target_hidden[one] for one in rows)])
        self._late = (row, committed.draft_seq_lens)
        return replace(committed, target_hidden=features, ctx_lens=counts, draft_seq_lens=lengths + counts)

    def _commit(self, phase: DflashDraftInput, pools: Pools) -> None:
        super()._commit(phase, pools)
        if self._late is not None:
            row, ends = self._late
            self._draft_seq_lens[row] = ends

    _late: tuple[Array, Array] | None = None


class RootsOfTheBlock(ReferenceDflashWorkerV2):
    """Ahead, starts the next block with the last draft instead of the bonus token."""

    def _committed(self, row: Array, lengths: Array, phase: VerifyOutput) -> DflashDraftInput:
        committed = super()._committed(row, lengths, phase)
        firsts = phase.predict.reshape(len(row), -1)[:, 0]
        return replace(committed, bonus_tokens=firsts.astype(np.int64))


class PathsOfTheNeighbour(ReferenceDflashWorkerV2):
    """Ahead, takes the features of everybody from the blocks of the next request."""

    def _committed(self, row: Array, lengths: Array, phase: VerifyOutput) -> DflashDraftInput:
        rolled = np.roll(phase.hidden_states, -self.parameters.block_size, axis=0)
        return super()._committed(row, lengths, replace(phase, hidden_states=rolled))


class OneRowEarlyAhead(ReferenceDflashWorkerV2):
    """Ahead, takes the features of every node from the one before it in the batch."""

    def _committed(self, row: Array, lengths: Array, phase: VerifyOutput) -> DflashDraftInput:
        rolled = np.roll(phase.hidden_states, 1, axis=0)
        return super()._committed(row, lengths, replace(phase, hidden_states=rolled))


class RootsOfTheNeighbourAhead(ReferenceDflashWorkerV2):
    """Ahead, starts everybody's block with the bonus token of the next request."""

    def _committed(self, row: Array, lengths: Array, phase: VerifyOutput) -> DflashDraftInput:
        committed = super()._committed(row, lengths, phase)
        return replace(committed, bonus_tokens=np.roll(committed.bonus_tokens, 1))


def _spans(counts: Array, kept: Array) -> list[tuple[int, int, int]]:
    """Return where the features of each request end, how many there are, and how many stay."""
    return list(zip(np.cumsum(counts).tolist(), counts.tolist(), kept.tolist(), strict=True))


def _of_requests(phase: DflashDraftInput, is_kept: Array) -> DflashDraftInput:
    """Return the requests of a phase that are kept, with their features."""
    rows = np.repeat(is_kept, phase.ctx_lens)
    return DflashDraftInput(
        phase.req_pool_indices[is_kept],
        phase.bonus_tokens[is_kept],
        phase.target_hidden[rows],
        phase.ctx_lens[is_kept],
        phase.draft_seq_lens[is_kept],
    )


_FAULTS: tuple[tuple[str, str, type[ReferenceDflashWorker]], ...] = (
    ("OWN-1740", "The features of the verify before become KV.", FeaturesOfTheVerifyBefore),
    ("OWN-1741", "A position gets the features of the one before.", OneRowEarly),
    ("OWN-1742", "A position gets the features of the one behind.", OneRowLate),
    ("OWN-1743", "The features of requests that end are lost.", EndedOnesAreNotProjected),
    ("OWN-1744", "The last feature of a block that is accepted whole is lost.", WholeBlocksAreNotProjected),
    ("OWN-1745", "Only prompts become KV of the draft.", PromptsAlone),
    ("OWN-1746", "Chunks behind the first never become KV of the draft.", FirstChunkAlone),
    ("OWN-1747", "A request gets the features of its neighbour.", FeaturesOfTheNeighbour),
    ("OWN-1748", "As many features as accepted drafts become KV.", AsManyAsDrafts),
    ("OWN-1749", "A block starts with the root of its neighbour.", RootsOfTheNeighbour),
    ("OWN-1750", "A block starts with the first token of the last output.", RootsOfTheVerifyBefore),
    ("OWN-1751", "Behind a block that was accepted whole the next one lies early.", LengthsOfTheVerifyBefore),
    ("OWN-1752", "A request counts drafts behind its end.", UncutCounts),
    ("OWN-1753", "All requests get the features at the front of the batch.", FeaturesBehindTheEnd),
)

_FAULTS_AHEAD: tuple[tuple[str, str, type[ReferenceDflashWorkerV2]], ...] = (
    ("OWN-1754", "Ahead, as many features as accepted drafts become KV.", DraftsForTokens),
    ("OWN-1755", "Ahead, a block starts with what follows the last root.", RootsOfTheBlock),
    ("OWN-1756", "Ahead, a request gets the features of its neighbour.", PathsOfTheNeighbour),
    ("OWN-1757", "Ahead, a position gets the features of the one before.", OneRowEarlyAhead),
    ("OWN-1758", "Ahead, a block starts with the root of its neighbour.", RootsOfTheNeighbourAhead),
)

MUTANTS = tuple(
    Mutant(number, "prepare_block_draft", summary, unchanged, workers={"dflash": worker})
    for number, summary, worker in _FAULTS
) + tuple(
    Mutant(number, "fill_block_tokens", summary, unchanged, workers={"dflash_v2": worker})
    for number, summary, worker in _FAULTS_AHEAD
)
