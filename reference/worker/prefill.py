"""The prefill: prompts through the target and, shifted by one, through the draft."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specsim.phases import DraftInput
from specsim.reference.worker.heads import Heads
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.sampling import first_tokens


def prefill(
    rows: Sequence[int], prompts: Sequence[Sequence[int]], pools: Pools, heads: Heads, call: Callable[..., Any]
) -> DraftInput:
    """Run the prompts of joining requests; their first output tokens are the roots of their first drafts.

    Parameters
    ----------
    rows, prompts : sequence
        Request row and prompt of each request; the prompt's slots are assigned.
    call : callable
        Runs an operation by name.

    Notes
    -----
    Source: semantics D.7.
    """
    row = np.array(rows, dtype=np.int64)
    lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int32)
    input_ids = np.array([token for prompt in prompts for token in prompt], dtype=np.int64)
    layout = {
        "positions": np.concatenate([np.arange(length, dtype=np.int64) for length in lengths]),
        "out_cache_loc": call(
            "assign_extend_cache_locs",
            req_pool_indices=row,
            req_to_token=pools.req_to_token,
            start_offsets=np.zeros_like(lengths),
            end_offsets=lengths,
            num_locations=len(input_ids),
        ),
        "page_table": pools.req_to_token[row, : lengths.max()],
        "cache_seqlens": lengths,
        "cu_seqlens_q": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        "page_size": 1,
    }
    hidden_states = call("target_forward", kv_buffers=pools.target_kv, input_ids=input_ids, tree_mask=None, **layout)
    last = np.cumsum(lengths) - 1
    chosen = heads.target_predict(hidden_states[last])
    bonus_tokens = first_tokens(row, lengths, hidden_states[last], chosen, heads, call)
    rotated = call("rotate_prefill_input_ids", input_ids=input_ids, extend_lens=lengths, tail_tokens=bonus_tokens)
    next_hidden_states, context = call(
        "draft_extend_forward", kv_buffers=pools.draft_kv, input_ids=rotated, hidden_states=hidden_states, **layout
    )
    topk_p, topk_index = heads.propose(next_hidden_states[last], context[last], depth=1)
    return DraftInput(
        req_pool_indices=row,
        seq_lens=lengths.astype(np.int64),
        topk_p=topk_p,
        topk_index=topk_index,
        hidden_states=next_hidden_states[last],
        bonus_tokens=bonus_tokens.astype(np.int32),
    )
