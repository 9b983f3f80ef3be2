"""Faults in the loop of a draft that reads the target's KV: seeds, keys and positions of somebody or some time else."""

from collections.abc import Callable

import numpy as np

from specsim.conformance.arrays import Array
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, mutants_of_sides
from specsim.simulation.models.batches import ListedKeys
from specsim.simulation.models.frozen import shared_kv

_LISTED = "pools.listed_keys(beams.beam_req_pool_indices, beams.beam_seq_lens, operations)"
_RUN = "self._model.draft_frozen(batch, shared_kv(self.facts.description, pools.kv[Side.TARGET]))"


def without_last(keys: ListedKeys[Array]) -> ListedKeys[Array]:
    """Return keys without the last one of every list."""
    return _listed([one[:-1] for one in _lists(keys)], keys)


def of_the_next(keys: ListedKeys[Array], topk: int) -> ListedKeys[Array]:
    """Return keys of which each request has what the one after it has committed."""
    lists = _lists(keys)
    return _listed(lists[topk:] + lists[:topk], keys)


def _lists(keys: ListedKeys[Array]) -> list[Array]:
    return np.split(keys.kv_indices, keys.kv_indptr[1:-1])


def _listed(lists: list[Array], keys: ListedKeys[Array]) -> ListedKeys[Array]:
    ends = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int32)
    return ListedKeys(np.concatenate(lists), ends, keys.max_num_keys)


def _in_drafts(old: str, new: str) -> Callable[[Function], Function]:
    return edited(old, new, within="FrozenSide.draft", without_last=without_last, of_the_next=of_the_next)


def _seeded(rows: str) -> Callable[[Function], Function]:
    """Inject other rows of the ragged extend that start the next drafts; its counts are those of tokens."""
    return edited(
        "selected = self._operations.select_last_verified(phase.num_accepted_tokens)",
        f"counts = phase.num_accepted_tokens.astype(np.int64)\nselected = {rows}",
        within="FrozenSide.extend_ragged",
    )


def _seeded_first(rows: str) -> Callable[[Function], Function]:
    """Inject other rows of chunks that start the first drafts."""
    return edited("after.last", rows, within="FrozenSide.prefill")


def _seeded_ahead(rows: str) -> Callable[[Function], Function]:
    """Inject other rows of an extend of one width that start the next drafts."""
    return edited("phase.select_index", rows, within="FrozenSide.extend")


_LAYERS_IN_TURN = edited(
    "description.target_layer_of[layer]",
    "(description.target_layer_of[layer] + 1) % len(next(iter(kv.values())))",
    within=shared_kv,
)

_CACHE_IS_WRITTEN = edited(
    f"return {_RUN}",
    f"""
    drafted = {_RUN}
    slots = batch.keys.kv_indices[batch.keys.kv_indptr[1:] - 1]
    for buffers in shared_kv(self.facts.description, pools.kv[Side.TARGET]).values():
        buffers[0][slots] += 1
    return drafted
    """,
    within="FrozenSide._forward",
)

_ROOT_IS_LOST = edited(
    "beams = operations.prepare_for_frozen_kv_draft(seeds.req_pool_indices, seeds.seq_lens, topk)",
    """
    beams = operations.prepare_for_frozen_kv_draft(seeds.req_pool_indices, seeds.seq_lens, topk)
    self.roots = dict(zip(seeds.req_pool_indices.tolist(), seeds.bonus_tokens.tolist(), strict=True))
    """,
    "phase.bonus_tokens",
    """
    np.where(
        phase.num_accepted_tokens == 1, [self.roots[row] for row in phase.req_pool_indices.tolist()], phase.bonus_tokens
    )
    """,
    within="FrozenSide",
)

MUTANTS = (
    *mutants_of_sides("prepare_for_frozen_kv_draft", ["frozen_kv_mtp"], (
        ("OWN-2640", "Positions advance with the depth.", _in_drafts("beams.positions", "beams.positions + step")),
        ("OWN-2641", "A draft stands at its first token, not at the last key.",
         _in_drafts("beams.positions", "beams.positions + 1")),
        ("OWN-2642", "Draft layers read the layer after their own.", _LAYERS_IN_TURN),
        ("OWN-2643", "A draft does not see the last key.", _in_drafts(_LISTED, f"without_last({_LISTED})")),
        ("OWN-2644", "A draft does not see the last key after its seed.",
         _in_drafts("FrozenDraftBatch(input_ids, beams.positions, keys, hidden_states, step + 1)",
                    "FrozenDraftBatch(input_ids, beams.positions, without_last(keys) if step else keys, hidden_states, "
                    "step + 1)")),
        ("OWN-2645", "A request drafts over the keys of its neighbour.",
         _in_drafts(_LISTED, f"of_the_next({_LISTED}, topk)")),
        ("OWN-2646", "A draft writes over the target's last key.", _CACHE_IS_WRITTEN),
        ("OWN-2647", "The seed is the state of the root.", _seeded("np.cumsum(counts) - counts")),
        ("OWN-2648", "The seed is the state one row before the last.",
         _seeded("np.cumsum(counts) - np.minimum(counts, 2)")),
        ("OWN-2649", "The row of a seed is found with the width of a path.",
         _seeded("(np.arange(len(counts)) * phase.num_tokens_per_req + counts - 1) % int(counts.sum())")),
        ("OWN-2650", "The seed is that of the neighbour.", _seeded("np.roll(np.cumsum(counts), -1) - 1")),
        ("OWN-2660", "All seeds are that of the last row.", _seeded("np.full_like(counts, counts.sum() - 1)")),
        ("OWN-2651", "The first seed is the state of the first token of a chunk.",
         _seeded_first("after.last - after.lengths + 1")),
        ("OWN-2652", "The first seed is that of the last request to join.",
         _seeded_first("np.full_like(after.last, after.last[-1])")),
        ("OWN-2653", "The root stays where a verify accepts no draft.", _ROOT_IS_LOST),
        ("OWN-2654", "No idle input is installed when all requests have ended.",
         edited("self.facts.idle_input(self._arrays.zeros)", "extend_input", within="ExtendedSide.follow_ragged")),
    )),
    *mutants_of_sides("prepare_for_frozen_kv_draft", ["frozen_kv_mtp_v2"], (
        ("OWN-2655", "The seed that waits is the state of the root.",
         _seeded_ahead("phase.select_index - verify_output.num_accepted_drafts")),
        ("OWN-2656", "The seed that waits is the state one row before the last.",
         _seeded_ahead("phase.select_index - np.minimum(verify_output.num_accepted_drafts, 1)")),
        ("OWN-2657", "Rows of seeds are counted with the width of a path.",
         _seeded_ahead("np.arange(len(row)) * verify_output.accept_index.shape[1] "
                       "+ verify_output.num_accepted_drafts")),
        ("OWN-2658", "The seed that waits is that of the neighbour.", _seeded_ahead("np.roll(phase.select_index, 1)")),
        ("OWN-2659", "Seeds are taken before the path is brought to the front.",
         edited("phase.hidden_states", "verify_output.hidden_states", within="FrozenSide.extend")),
        ("OWN-2661", "The seed that waits is the state of the last node.",
         _seeded_ahead("np.arange(1, len(row) + 1) * verify_input.num_draft_tokens - 1")),
    )),
)  # fmt: skip
