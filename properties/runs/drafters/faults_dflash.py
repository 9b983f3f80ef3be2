"""Faults in the loop that drafts blocks: in the features that become KV, in what starts a block, and in its counts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.counts import count_drafts
from specsim.phases import DflashDraftInput, EagleDraftExtendInput, VerifyOutput
from specsim.properties.mutants.record import mutants_of_sides
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.sides.dflash import DflashSide, WaitingRoots
from specsim.simulation.sides import Followed, Setting, Waiting


class FeaturesOfTheVerifyBefore(DflashSide):
    """Projects the features of a prefill or verify when the next one has run, at the positions of this one."""

    _before: Array | None = None

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        before, self._before = self._before, phase.target_hidden
        if before is not None and len(before) >= len(phase.target_hidden):
            phase = replace(phase, target_hidden=before[: len(phase.target_hidden)])
        super()._project(phase, pools)


class OneRowEarly(DflashSide):
    """Projects to each position the features of the one before."""

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        features = phase.target_hidden
        super()._project(replace(phase, target_hidden=np.concatenate([features[:1], features[:-1]])), pools)


class OneRowLate(DflashSide):
    """Projects to each position the features of the one after it: the draft cache is shifted, as EAGLE's is."""

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        features = phase.target_hidden
        super()._project(replace(phase, target_hidden=np.concatenate([features[1:], features[-1:]])), pools)


class EndedOnesAreNotProjected(DflashSide):
    """Leaves masks where a request ended, which the prefix cache shows to others."""

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        goes_on = np.array([row not in self._ended for row in phase.req_pool_indices.tolist()], dtype=np.bool_)
        super()._project(_of_requests(phase, goes_on), pools)

    _ended: frozenset[int] = frozenset()

    def follow_ragged(
        self,
        start: DflashDraftInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Note who has ended."""
        self._ended = frozenset(everyone.req_pool_indices.tolist()) - frozenset(going_on.req_pool_indices.tolist())
        followed = super().follow_ragged(start, everyone, going_on, config, pools)
        self._ended = frozenset()
        return followed


class WholeBlocksAreNotProjected(DflashSide):
    """Loses the last row where everything was accepted."""

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        is_whole = (phase.ctx_lens == self.parameters.block_size) & (phase.draft_seq_lens > phase.ctx_lens)
        for request in np.flatnonzero(~is_whole).tolist():
            super()._project(_of_requests(phase, np.arange(phase.num_requests) == request), pools)
        for request in np.flatnonzero(is_whole).tolist():
            alone = _of_requests(phase, np.arange(phase.num_requests) == request)
            lengths = np.array([count_drafts(self.parameters.block_size)], dtype=np.int32)
            ends = alone.draft_seq_lens - alone.ctx_lens + lengths
            kept = alone.target_hidden[: int(lengths[0])]
            super()._project(replace(alone, ctx_lens=lengths, draft_seq_lens=ends, target_hidden=kept), pools)


class PromptsAlone(DflashSide):
    """Projects nothing after a verify."""

    def _committed_ragged(self, everyone: EagleDraftExtendInput) -> DflashDraftInput:
        phase = super()._committed_ragged(everyone)
        self._verified = phase.draft_seq_lens
        return phase

    _verified: Array | None = None

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        if phase.draft_seq_lens is not self._verified:
            super()._project(phase, pools)


class FirstChunkAlone(DflashSide):
    """Projects the first chunk of a prompt, or what follows a hit, and no chunk after it."""

    _seen: frozenset[tuple[int, int]] = frozenset()

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        ends = list(zip(phase.req_pool_indices.tolist(), phase.draft_seq_lens.tolist(), strict=True))
        starts = [(row, end - count) for (row, end), count in zip(ends, phase.ctx_lens.tolist(), strict=True)]
        is_prompt = phase.ctx_lens > 1
        is_later = np.array([start in self._seen for start in starts], dtype=np.bool_) & is_prompt
        self._seen = frozenset(ends)
        super()._project(_of_requests(phase, ~is_later), pools)


class FeaturesOfTheNeighbour(DflashSide):
    """Gives each position what the next request of the batch has there, where both have as many."""

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        counts = set(phase.ctx_lens.tolist())
        if len(counts) == 1:
            rolled = np.roll(phase.target_hidden, -int(phase.ctx_lens[0]), axis=0)
            phase = replace(phase, target_hidden=rolled)
        super()._project(phase, pools)


class AsManyAsDrafts(DflashSide):
    """Projects a row for each accepted draft, and none for the root."""

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        drafts = np.maximum(phase.ctx_lens - 1, 1).astype(np.int32)
        firsts = np.cumsum(phase.ctx_lens) - phase.ctx_lens
        rows = [np.arange(first, first + count) for first, count in zip(firsts, drafts, strict=True)]
        shorter = phase.draft_seq_lens - phase.ctx_lens + drafts
        features = phase.target_hidden[np.concatenate([np.zeros(0, dtype=np.int64), *rows])]
        super()._project(
            replace(phase, ctx_lens=drafts, draft_seq_lens=shorter.astype(np.int32), target_hidden=features), pools
        )


class RootsOfTheNeighbour(DflashSide):
    """Starts each block with the token that the next request of the batch output last."""

    def waiting(self, is_v1: bool) -> Waiting:
        """Return roots that are turned when they are taken."""

        class Turned(WaitingRoots):
            def take(self, rows: Sequence[int]) -> DflashDraftInput:
                start = super().take(rows)
                return replace(start, bonus_tokens=np.roll(start.bonus_tokens, -1))

        return Turned(self._sizes)


class RootsOfTheVerifyBefore(DflashSide):
    """Starts each block with the first token that the verify before output, as long as there are several."""

    def _committed_ragged(self, everyone: EagleDraftExtendInput) -> DflashDraftInput:
        phase = super()._committed_ragged(everyone)
        firsts = np.cumsum(phase.ctx_lens) - phase.ctx_lens
        return replace(phase, bonus_tokens=everyone.input_ids[firsts].astype(np.int64))


class LengthsOfTheVerifyBefore(DflashSide):
    """Drafts a position too early where a whole block was accepted."""

    def waiting(self, is_v1: bool) -> Waiting:
        """Return lengths that are a position short after whole blocks."""
        size = self.parameters.block_size

        class Early(WaitingRoots):
            _whole_rows: frozenset[int] = frozenset()

            def keep(self, start: DflashDraftInput, joins: bool = False) -> None:
                if not joins:
                    self._whole_rows = frozenset(start.req_pool_indices[start.ctx_lens == size].tolist())
                super().keep(start, joins)

            def take(self, rows: Sequence[int]) -> DflashDraftInput:
                start = super().take(rows)
                late = np.array([one in self._whole_rows for one in rows], dtype=np.int32)
                return replace(start, draft_seq_lens=start.draft_seq_lens - late)

        return Early(self._sizes)


class UncutCounts(DflashSide):
    """Counts drafts after the end of a request, and a histogram of them."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.facts = replace(self.facts, counts_only_output=False)


class FeaturesAfterTheEnd(DflashSide):
    """Takes the features of every request from the front of the batch, one row after another."""

    def _committed_ragged(self, everyone: EagleDraftExtendInput) -> DflashDraftInput:
        phase = super()._committed_ragged(everyone)
        firsts = np.concatenate([np.arange(count) for count in phase.ctx_lens.tolist()])
        return replace(phase, target_hidden=phase.target_hidden[firsts])


class DraftsForTokens(DflashSide):
    """Ahead, projects a row for each accepted draft, and none for the last of them."""

    def _project(self, phase: DflashDraftInput, pools: Pools) -> None:
        if phase is self._accepted:
            ends, counts = np.cumsum(phase.ctx_lens), np.maximum(phase.ctx_lens - 1, 1).astype(np.int32)
            firsts = (ends - phase.ctx_lens).tolist()
            rows = [slice(first, first + own) for first, own in zip(firsts, counts.tolist(), strict=True)]
            features = np.concatenate([phase.target_hidden[:0], *(phase.target_hidden[one] for one in rows)])
            lengths = phase.draft_seq_lens - phase.ctx_lens + counts
            phase = replace(phase, target_hidden=features, ctx_lens=counts, draft_seq_lens=lengths)
        super()._project(phase, pools)

    def _committed(self, start: DflashDraftInput, phase: VerifyOutput) -> DflashDraftInput:
        self._accepted = super()._committed(start, phase)
        return self._accepted

    _accepted: DflashDraftInput | None = None


class RootsOfTheBlock(DflashSide):
    """Ahead, starts the next block with the last draft instead of the bonus token."""

    def _committed(self, start: DflashDraftInput, phase: VerifyOutput) -> DflashDraftInput:
        committed = super()._committed(start, phase)
        firsts = phase.predict.reshape(len(start.req_pool_indices), -1)[:, 0]
        return replace(committed, bonus_tokens=firsts.astype(np.int64))


class PathsOfTheNeighbour(DflashSide):
    """Ahead, takes the features of everybody from the blocks of the next request."""

    def _committed(self, start: DflashDraftInput, phase: VerifyOutput) -> DflashDraftInput:
        rolled = np.roll(phase.hidden_states, -self.parameters.block_size, axis=0)
        return super()._committed(start, replace(phase, hidden_states=rolled))


class OneRowEarlyAhead(DflashSide):
    """Ahead, takes the features of every node from the one before it in the batch."""

    def _committed(self, start: DflashDraftInput, phase: VerifyOutput) -> DflashDraftInput:
        rolled = np.roll(phase.hidden_states, 1, axis=0)
        return super()._committed(start, replace(phase, hidden_states=rolled))


class RootsOfTheNeighbourAhead(DflashSide):
    """Ahead, starts everybody's block with the bonus token of the next request."""

    def _committed(self, start: DflashDraftInput, phase: VerifyOutput) -> DflashDraftInput:
        committed = super()._committed(start, phase)
        return replace(committed, bonus_tokens=np.roll(committed.bonus_tokens, 1))


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


_FAULTS: tuple[tuple[str, str, type[DflashSide]], ...] = (
    ("OWN-1740", "The features of the verify before become KV.", FeaturesOfTheVerifyBefore),
    ("OWN-1741", "A position gets the features of the one before.", OneRowEarly),
    ("OWN-1742", "A position gets the features of the one after it.", OneRowLate),
    ("OWN-1743", "The features of requests that end are lost.", EndedOnesAreNotProjected),
    ("OWN-1744", "The last feature of a block that is accepted whole is lost.", WholeBlocksAreNotProjected),
    ("OWN-1745", "Only prompts become KV of the draft.", PromptsAlone),
    ("OWN-1746", "Chunks after the first never become KV of the draft.", FirstChunkAlone),
    ("OWN-1747", "A request gets the features of its neighbour.", FeaturesOfTheNeighbour),
    ("OWN-1748", "As many features as accepted drafts become KV.", AsManyAsDrafts),
    ("OWN-1749", "A block starts with the root of its neighbour.", RootsOfTheNeighbour),
    ("OWN-1750", "A block starts with the first token of the last output.", RootsOfTheVerifyBefore),
    ("OWN-1751", "After a block that was accepted whole the next one lies early.", LengthsOfTheVerifyBefore),
    ("OWN-1752", "A request counts drafts after its end.", UncutCounts),
    ("OWN-1753", "All requests get the features at the front of the batch.", FeaturesAfterTheEnd),
)

_FAULTS_AHEAD: tuple[tuple[str, str, type[DflashSide]], ...] = (
    ("OWN-1754", "Ahead, as many features as accepted drafts become KV.", DraftsForTokens),
    ("OWN-1755", "Ahead, a block starts with what follows the last root.", RootsOfTheBlock),
    ("OWN-1756", "Ahead, a request gets the features of its neighbour.", PathsOfTheNeighbour),
    ("OWN-1757", "Ahead, a position gets the features of the one before.", OneRowEarlyAhead),
    ("OWN-1758", "Ahead, a block starts with the root of its neighbour.", RootsOfTheNeighbourAhead),
)

MUTANTS = (
    *mutants_of_sides("prepare_block_draft", ["dflash"], _FAULTS),
    *mutants_of_sides("fill_block_tokens", ["dflash_v2"], _FAULTS_AHEAD),
)
