"""Faults in the loop of a draft that reads the target's KV: seeds, keys and positions of somebody or some time else."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from specsim.assertion import require_kind
from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.phases import Batch, DraftInput, EagleDraftExtendInput, FrozenKVMTPDraftInput, VerifyInput
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.reference.worker.frozen_side import FrozenSide
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.simulation.models.batches import DraftOutput, ListedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.frozen import FrozenDraftBatch, shared_kv

Drafts = FrozenDraftBatch[Array]


class PositionsAdvance(FrozenSide):
    """Lets every forward stand one position further, as a draft that writes entries does."""

    def _forward(self, batch: Drafts, pools: Pools) -> DraftOutput[Array]:
        return super()._forward(replace(batch, positions=batch.positions + batch.depth - 1), pools)


class PositionOfTheToken(FrozenSide):
    """Lets the draft stand where its first token does."""

    def _forward(self, batch: Drafts, pools: Pools) -> DraftOutput[Array]:
        return super()._forward(replace(batch, positions=batch.positions + 1), pools)


class LayersInTurn(FrozenSide):
    """Gives the layers of the draft those of the target from the next one on."""

    def _forward(self, batch: Drafts, pools: Pools) -> DraftOutput[Array]:
        told = self.facts.description
        num_layers = len(next(iter(pools.kv[Side.TARGET].values())))
        others = {layer: (target + 1) % num_layers for layer, target in told.target_layer_of.items()}
        kv = shared_kv(replace(told, target_layer_of=others), pools.kv[Side.TARGET])
        return self.model.draft_frozen(batch, kv)


class LastKeyUnseen(FrozenSide):
    """Loses the last key of every text but those of one token."""

    def _forward(self, batch: Drafts, pools: Pools) -> DraftOutput[Array]:
        return super()._forward(replace(batch, keys=_cut(batch.keys, 1, 0)), pools)


class OldKeysDeeper(FrozenSide):
    """Loses the last key behind the seed."""

    def _forward(self, batch: Drafts, pools: Pools) -> DraftOutput[Array]:
        return super()._forward(replace(batch, keys=_cut(batch.keys, 1, 0)) if batch.depth > 1 else batch, pools)


class KeysOfTheNeighbour(FrozenSide):
    """Lets each request see what the one behind it has committed."""

    def _forward(self, batch: Drafts, pools: Pools) -> DraftOutput[Array]:
        keys, topk = batch.keys, self.facts.num_candidates
        lists = np.split(keys.kv_indices, keys.kv_indptr[1:-1])
        lists = lists[topk:] + lists[:topk]
        ends = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int32)
        moved = ListedKeys(np.concatenate(lists), ends, keys.max_num_keys)
        return super()._forward(replace(batch, keys=moved), pools)


class CacheIsWritten(FrozenSide):
    """Writes an entry of the draft where the target's last one lies."""

    def _forward(self, batch: Drafts, pools: Pools) -> DraftOutput[Array]:
        drafted = super()._forward(batch, pools)
        slots = batch.keys.kv_indices[batch.keys.kv_indptr[1:] - 1]
        for buffers in shared_kv(self.facts.description, pools.kv[Side.TARGET]).values():
            buffers[0][slots] += 1
        return drafted


class SeedOfTheRoot(FrozenSide):
    """Starts the next draft from the state of the root, which is stale once a draft was accepted."""

    def _next_seeds(self, batch: Batch, operations: CallsByName) -> DraftInput:
        return _with_states(super()._next_seeds(batch, operations), batch, lambda counts: np.cumsum(counts) - counts)


class SeedOneEarly(FrozenSide):
    """Starts the next draft from the state of the last accepted draft's parent."""

    def _next_seeds(self, batch: Batch, operations: CallsByName) -> DraftInput:
        seeds = super()._next_seeds(batch, operations)
        return _with_states(seeds, batch, lambda counts: np.cumsum(counts) - np.minimum(counts, 2))


class SeedAtTheWrongWidth(FrozenSide):
    """Takes ragged rows for rows of one width."""

    def _next_seeds(self, batch: Batch, operations: CallsByName) -> DraftInput:
        width = require_kind("what is installed", batch.info, EagleDraftExtendInput).num_tokens_per_req

        def rows(counts: Array) -> Array:
            places: Array = np.arange(len(counts)) * width + counts - 1
            return places % int(counts.sum())

        return _with_states(super()._next_seeds(batch, operations), batch, rows)


class SeedOfTheNeighbour(FrozenSide):
    """Gives each request the state of the one behind it."""

    def _next_seeds(self, batch: Batch, operations: CallsByName) -> DraftInput:
        return _with_states(
            super()._next_seeds(batch, operations), batch, lambda counts: np.roll(np.cumsum(counts), -1) - 1
        )


class SeedOfTheLastRow(FrozenSide):
    """Takes every seed from the last row of the batch."""

    def _next_seeds(self, batch: Batch, operations: CallsByName) -> DraftInput:
        seeds = super()._next_seeds(batch, operations)
        return _with_states(seeds, batch, lambda counts: np.full_like(counts, counts.sum() - 1))


class SeedOfTheFirstRow(FrozenSide):
    """Starts the first draft of a request from the state of its chunk's first token."""

    def _first_seeds(self, behind: TargetPrefill) -> FrozenKVMTPDraftInput:
        return super()._first_seeds(replace(behind, last=behind.last - behind.lengths + 1))


class SeedOfTheBatch(FrozenSide):
    """Starts the first drafts of all requests that join together from the state of the last one."""

    def _first_seeds(self, behind: TargetPrefill) -> FrozenKVMTPDraftInput:
        return super()._first_seeds(replace(behind, last=np.full_like(behind.last, behind.last[-1])))


@dataclass(frozen=True)
class RootIsLost(FrozenSide):
    """Drafts from the root of the draft before where only the bonus token was output."""

    roots: dict[int, int] = field(default_factory=dict)

    def draft(
        self,
        phase: DraftInput,
        config: SpecConfig,
        pools: Pools,
        verify_slots: Callable[[], Array],
        operations: CallsByName,
    ) -> VerifyInput:
        """Remember the roots."""
        self.roots.clear()
        self.roots.update(zip(phase.req_pool_indices.tolist(), phase.bonus_tokens.tolist(), strict=True))
        return super().draft(phase, config, pools, verify_slots, operations)

    def _next_seeds(self, batch: Batch, operations: CallsByName) -> DraftInput:
        seeds = super()._next_seeds(batch, operations)
        rows = seeds.req_pool_indices.tolist()
        counts = vars(batch.info)["num_accepted_tokens"].tolist()
        tokens = [
            self.roots[row] if count == 1 else token
            for row, count, token in zip(rows, counts, seeds.bonus_tokens.tolist(), strict=True)
        ]
        return replace(seeds, bonus_tokens=np.array(tokens, dtype=np.int32))


class VerifyInputStays(ReferenceWorkerV1):
    """Leaves the verify input installed when all requests have ended."""

    def _draft(self, phase: DraftInput, config: SpecConfig) -> VerifyInput:
        verify_input = super()._draft(phase, config)
        self._last: Any = verify_input
        return verify_input

    def _extend(self, batch: Batch, num_steps: int) -> DraftInput:
        seeds = super()._extend(batch, num_steps)
        installed: DraftInput = seeds if seeds.num_requests else self._last
        return installed


def _cut(keys: ListedKeys[Array], count: int, least: int) -> ListedKeys[Array]:
    """Return keys without the last ones of every list, as far as there are more than the fewest."""
    lists = np.split(keys.kv_indices, keys.kv_indptr[1:-1])
    lists = [one[: max(len(one) - count, least)] for one in lists]
    ends = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int32)
    return ListedKeys(np.concatenate(lists), ends, keys.max_num_keys)


def _with_states(seeds: DraftInput, batch: Batch, rows: Callable[[Array], Array]) -> DraftInput:
    """Return seeds with the states of other rows of the extend, which are chosen by its counts."""
    phase = require_kind("what is installed", batch.info, EagleDraftExtendInput)
    return replace(seeds, hidden_states=phase.hidden_states[rows(phase.num_accepted_tokens.astype(np.int64))])


_FAULTS: tuple[tuple[str, str, type[FrozenSide]], ...] = (
    ("OWN-2640", "Positions advance with the depth.", PositionsAdvance),
    ("OWN-2641", "A draft stands at its first token, not at the last key.", PositionOfTheToken),
    ("OWN-2642", "Draft layers read the layer behind their own.", LayersInTurn),
    ("OWN-2643", "A draft does not see the last key.", LastKeyUnseen),
    ("OWN-2644", "A draft does not see the last key behind its seed.", OldKeysDeeper),
    ("OWN-2645", "A request drafts over the keys of its neighbour.", KeysOfTheNeighbour),
    ("OWN-2646", "A draft writes over the target's last key.", CacheIsWritten),
    ("OWN-2647", "The seed is the state of the root.", SeedOfTheRoot),
    ("OWN-2648", "The seed is the state one row before the last.", SeedOneEarly),
    ("OWN-2649", "The row of a seed is found with the width of a path.", SeedAtTheWrongWidth),
    ("OWN-2650", "The seed is that of the neighbour.", SeedOfTheNeighbour),
    ("OWN-2660", "All seeds are that of the last row.", SeedOfTheLastRow),
    ("OWN-2651", "The first seed is the state of the first token of a chunk.", SeedOfTheFirstRow),
    ("OWN-2652", "The first seed is that of whoever joins last.", SeedOfTheBatch),
    ("OWN-2653", "The root stays where a verify accepts no draft.", RootIsLost),
)


def _planted(number: str, summary: str, worker: type[ReferenceWorkerV1], side: type[FrozenSide]) -> Mutant:
    """Return the fault of a loop with a side."""
    workers = {"frozen_kv_mtp": partial(worker, make_side=side.of)}
    return Mutant(number, "prepare_for_frozen_kv_draft", summary, unchanged, workers=workers)


MUTANTS = (
    *(_planted(number, summary, ReferenceWorkerV1, side) for number, summary, side in _FAULTS),
    _planted("OWN-2654", "No idle input is installed when all requests have ended.", VerifyInputStays, FrozenSide),
)
