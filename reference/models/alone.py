"""The draft of STANDALONE: a model of its own, which knows of a text what the entries of its cache say.

An entry at draft position p has the token of position p+1, so that the first token of a text is in none of them; the
target of such a pair does not listen to it either. From the tokens of the entries that it sees a draft computes what
the target's hidden states have to be: an entry of another text, or one that is missing, makes others of them.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from specsim.conformance.arrays import Array
from specsim.reference.models.folds import own_keys
from specsim.reference.models.recurrence import Recurrence, after_chunks
from specsim.reference.models.stored import StoredTags
from specsim.simulation.models.batches import DraftExtendBatch, DraftStepBatch, PagedKeys, TargetBatch
from specsim.simulation.models.ground_truth import FIRST_TOKEN
from specsim.simulation.models.pool_kinds import CONVOLUTION, CONVOLUTION_WIDTH, RECURRENT


def hidden_before_steps(batch: DraftStepBatch[Array], keys: StoredTags, num_layers: int) -> Array:
    """Return int64 [beam, hidden]: the hidden states after all that each beam sees, its new token excepted."""
    offsets = batch.keys.kv_indptr.tolist()
    texts = []
    for own, (start, end) in zip(batch.out_cache_loc, pairwise(offsets), strict=True):
        slots = batch.keys.kv_indices[start:end]
        texts.append(keys[slots[slots != own]])
    return _states_after(texts, num_layers).hidden_states()


def hidden_before_chunks(batch: DraftExtendBatch[Array], keys: StoredTags, num_layers: int) -> Array:
    """Return int64 [token, hidden]: the hidden states after all that lies before each new token."""
    facts = batch.keys
    sight = own_keys(facts.page_table, facts.cache_seqlens, facts.cu_seqlens_q, None, facts.page_size)
    prefixes = [slots[: len(slots) - width] for slots, width in zip(sight.keys, sight.widths, strict=True)]
    known = _states_after([keys[slots] for slots in prefixes], num_layers)
    states = {RECURRENT: list(known.sums.T[:, :, None]), CONVOLUTION: [known.windows]}
    after = after_chunks(_chunks(batch.input_ids, batch.positions + 1, facts.cu_seqlens_q), states).hidden_states()
    before = np.concatenate([after[:1], after[:-1]])
    starts = facts.cu_seqlens_q[:-1][np.array(sight.widths) > 0]
    before[starts] = known.hidden_states()[np.array(sight.widths) > 0]
    return before


def _states_after(texts: Sequence[Array], num_layers: int) -> Recurrence:
    """Return the states after some texts, whose tokens are the entries of a cache, by their positions."""
    rows = [np.zeros((len(texts), 1), dtype=np.int64) for _ in range(num_layers)]
    states = {RECURRENT: rows, CONVOLUTION: [np.zeros((len(texts), CONVOLUTION_WIDTH), dtype=np.int64)]}
    ordered = [entries[np.argsort(entries[:, 0], kind="stable")] for entries in texts]
    tokens = [np.concatenate([[FIRST_TOKEN], entries[:, 1]]) for entries in ordered]
    positions = [np.concatenate([[0], entries[:, 0] + 1]) for entries in ordered]
    ends = np.concatenate([[0], np.cumsum([len(one) for one in tokens])]).astype(np.int32)
    nothing = np.zeros(0, dtype=np.int64)
    everything = np.concatenate([nothing, *tokens]), np.concatenate([nothing, *positions])
    after = after_chunks(_chunks(*everything, ends), states)
    return Recurrence(after.sums[ends[1:] - 1], after.windows[ends[1:] - 1])


def _chunks(tokens: Array, positions: Array, cu_seqlens_q: Array) -> TargetBatch[Array]:
    """Return chunks of texts, numbered from 0, that nothing but their tokens is known of."""
    count, nothing = len(cu_seqlens_q) - 1, np.zeros(0, dtype=np.int64)
    return TargetBatch(
        req_pool_indices=np.arange(count),
        input_ids=tokens,
        positions=positions,
        out_cache_loc=nothing,
        prefix_lens=nothing,
        keys=PagedKeys(nothing, nothing, cu_seqlens_q, 1),
        tree_mask=None,
        parents=None,
        select=None,
        hidden_layers=(),
        is_sampled=False,
    )
