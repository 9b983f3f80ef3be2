"""Faults in the loop of a draft that reads the target's KV: seeds, keys and positions of somebody or some time else."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from specsim.assertion import require_kind
from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.phases import Batch, DraftInput, EagleDraftExtendInput, VerifyInput
from specsim.properties.mutants.record import mutants_of_sides
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.simulation.draft_sides.frozen_kv_mtp import FrozenSide
from specsim.simulation.models.batches import DraftOutput, ListedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.frozen import FrozenDraftBatch, shared_kv
from specsim.simulation.sides import Followed

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
        description = self.facts.description
        num_layers = len(next(iter(pools.kv[Side.TARGET].values())))
        others = {layer: (target + 1) % num_layers for layer, target in description.target_layer_of.items()}
        kv = shared_kv(replace(description, target_layer_of=others), pools.kv[Side.TARGET])
        return self._model.draft_frozen(batch, kv)


class LastKeyUnseen(FrozenSide):
    """Loses the last key of every text but those of one token."""

    def _forward(self, batch: Drafts, pools: Pools) -> DraftOutput[Array]:
        return super()._forward(replace(batch, keys=_cut(batch.keys, 1, 0)), pools)


class OldKeysDeeper(FrozenSide):
    """Loses the last key after the seed."""

    def _forward(self, batch: Drafts, pools: Pools) -> DraftOutput[Array]:
        return super()._forward(replace(batch, keys=_cut(batch.keys, 1, 0)) if batch.depth > 1 else batch, pools)


class KeysOfTheNeighbour(FrozenSide):
    """Lets each request see what the one after it has committed."""

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


def _seeded(rows: Callable[[Array, Batch], Array]) -> type[FrozenSide]:
    """Return a side that starts the next drafts from other rows of the extend, by its counts and its batch."""

    class Seeded(FrozenSide):
        def extend_ragged(self, batch: Batch, pools: Pools) -> DraftInput:
            seeds = super().extend_ragged(batch, pools)
            phase = require_kind("what is installed", batch.info, EagleDraftExtendInput)
            places = rows(phase.num_accepted_tokens.astype(np.int64), batch)
            return replace(seeds, hidden_states=phase.hidden_states[places])

    return Seeded


def _at_the_wrong_width(counts: Array, batch: Batch) -> Array:
    """Take ragged rows for rows of one width."""
    width = require_kind("what is installed", batch.info, EagleDraftExtendInput).num_tokens_per_req
    places: Array = np.arange(len(counts)) * width + counts - 1
    return places % int(counts.sum())


def _one_early(counts: Array, batch: Batch) -> Array:
    """Take the state of the last accepted draft's parent."""
    return np.cumsum(counts) - np.minimum(counts, 2)


def _of_the_next(counts: Array, batch: Batch) -> Array:
    return np.roll(np.cumsum(counts), -1) - 1


class SeedOfTheFirstRow(FrozenSide):
    """Starts the first draft of a request from the state of its chunk's first token."""

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Take other rows."""
        return super().prefill(replace(after, last=after.last - after.lengths + 1), pools)


class SeedOfTheBatch(FrozenSide):
    """Starts the first drafts of all requests that join together from the state of the last one."""

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Take other rows."""
        return super().prefill(replace(after, last=np.full_like(after.last, after.last[-1])), pools)


class RootIsLost(FrozenSide):
    """Drafts from the root of the draft before where only the bonus token was output."""

    _roots: dict[int, int]

    def draft(
        self, start: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Array]
    ) -> VerifyInput:
        """Remember the roots."""
        self._roots = dict(zip(start.req_pool_indices.tolist(), start.bonus_tokens.tolist(), strict=True))
        return super().draft(start, config, pools, verify_slots)

    def extend_ragged(self, batch: Batch, pools: Pools) -> DraftInput:
        """Put the old roots back."""
        seeds = super().extend_ragged(batch, pools)
        rows = seeds.req_pool_indices.tolist()
        counts = vars(batch.info)["num_accepted_tokens"].tolist()
        tokens = [
            self._roots[row] if count == 1 else token
            for row, count, token in zip(rows, counts, seeds.bonus_tokens.tolist(), strict=True)
        ]
        return replace(seeds, bonus_tokens=np.array(tokens, dtype=np.int32))


class VerifyInputStays(FrozenSide):
    """Leaves the verify input installed when all requests have ended."""

    _last: VerifyInput

    def draft(
        self, start: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Array]
    ) -> VerifyInput:
        """Remember what is verified."""
        self._last = super().draft(start, config, pools, verify_slots)
        return self._last

    def follow_ragged(
        self,
        start: DraftInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Carry it where no one goes on."""
        followed = super().follow_ragged(start, everyone, going_on, config, pools)
        return followed if going_on.num_requests else replace(followed, start=self._last)


def _cut(keys: ListedKeys[Array], count: int, least: int) -> ListedKeys[Array]:
    """Return keys without the last ones of every list, as far as there are more than the fewest."""
    lists = np.split(keys.kv_indices, keys.kv_indptr[1:-1])
    lists = [one[: max(len(one) - count, least)] for one in lists]
    ends = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int32)
    return ListedKeys(np.concatenate(lists), ends, keys.max_num_keys)


_FAULTS: tuple[tuple[str, str, type[FrozenSide]], ...] = (
    ("OWN-2640", "Positions advance with the depth.", PositionsAdvance),
    ("OWN-2641", "A draft stands at its first token, not at the last key.", PositionOfTheToken),
    ("OWN-2642", "Draft layers read the layer after their own.", LayersInTurn),
    ("OWN-2643", "A draft does not see the last key.", LastKeyUnseen),
    ("OWN-2644", "A draft does not see the last key after its seed.", OldKeysDeeper),
    ("OWN-2645", "A request drafts over the keys of its neighbour.", KeysOfTheNeighbour),
    ("OWN-2646", "A draft writes over the target's last key.", CacheIsWritten),
    ("OWN-2647", "The seed is the state of the root.", _seeded(lambda counts, _: np.cumsum(counts) - counts)),
    ("OWN-2648", "The seed is the state one row before the last.", _seeded(_one_early)),
    ("OWN-2649", "The row of a seed is found with the width of a path.", _seeded(_at_the_wrong_width)),
    ("OWN-2650", "The seed is that of the neighbour.", _seeded(_of_the_next)),
    (
        "OWN-2660",
        "All seeds are that of the last row.",
        _seeded(lambda counts, _: np.full_like(counts, counts.sum() - 1)),
    ),
    ("OWN-2651", "The first seed is the state of the first token of a chunk.", SeedOfTheFirstRow),
    ("OWN-2652", "The first seed is that of the last request to join.", SeedOfTheBatch),
    ("OWN-2653", "The root stays where a verify accepts no draft.", RootIsLost),
    ("OWN-2654", "No idle input is installed when all requests have ended.", VerifyInputStays),
)


MUTANTS = mutants_of_sides("prepare_for_frozen_kv_draft", ["frozen_kv_mtp"], _FAULTS)
