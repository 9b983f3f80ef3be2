"""The draft-extend on the device: the draft catches up with the target, and what it proposes starts the next draft.

V2 extends ``node`` rows a request, V1 exactly the accepted tokens of the requests that go on.
"""

from dataclasses import replace

import torch
from torch import Tensor

from specsim import gpu
from specsim.counts import count_drafts, path_width
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.reclaim import Reclaimed
from specsim.phases import DraftExtendInput, DraftInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.simulation.models.batches import DraftExtendBatch, PagedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model


def extend(
    rows: Tensor,
    verify_input: VerifyInput,
    verify_output: VerifyOutput,
    phase: DraftExtendInput,
    keys: PagedKeys[Tensor],
    topk: int,
    model: Model[Tensor],
    pools: Pools,
) -> DraftInput:
    """Run the draft model over ``node`` rows a request; the row behind the accepted path starts the next draft.

    ``keys`` are those of the verify, whose window the extend fills again. Semantics D.6.
    """
    batch = DraftExtendBatch(
        req_pool_indices=rows,
        input_ids=phase.input_ids,
        positions=phase.positions,
        out_cache_loc=phase.out_cache_loc,
        keys=keys,
        hidden_states=phase.hidden_states,
        select=phase.select_index,
    )
    drafted = model.draft_extend(batch, pools.kv[Side.DRAFT])
    topk_p, topk_index = gpu.fast_topk(drafted.probabilities, topk)
    return DraftInput(
        req_pool_indices=rows,
        seq_lens=verify_input.seq_lens + phase.num_accepted_tokens,
        topk_p=topk_p,
        topk_index=topk_index,
        hidden_states=drafted.hidden_states,
        bonus_tokens=verify_output.bonus_tokens,
    )


def collect_extend_input(rows: Tensor, verify_output: VerifyOutput, kept: Reclaimed) -> EagleDraftExtendInput:
    """Flatten the accepted paths of the requests that go on (semantics C.2, D.1)."""
    hidden_states, counts = verify_output.hidden_states, kept.num_accepted_tokens.index_select(0, kept.places)
    return EagleDraftExtendInput(
        req_pool_indices=rows.index_select(0, kept.places),
        seq_lens=kept.seq_lens.index_select(0, kept.places),
        seq_lens_cpu=kept.seq_lens_cpu,
        num_accepted_drafts=count_drafts(counts),
        num_accepted_tokens=counts,
        num_accepted_tokens_cpu=kept.num_accepted_tokens_cpu,
        input_ids=verify_output.predict.index_select(0, kept.accept_indices).long(),
        hidden_states=None if hidden_states is None else hidden_states.index_select(0, kept.accept_indices),
        out_cache_loc=kept.out_cache_loc,
    )


def prepare_extend_after_decode(phase: EagleDraftExtendInput, num_steps: int) -> EagleDraftExtendInput:
    """Return the extend with its positions and bonus tokens (semantics D.2, D.3)."""
    positions, bonus_tokens = gpu.create_extend_after_decode_spec_info(
        phase.input_ids, phase.seq_lens, phase.num_accepted_tokens
    )
    return replace(phase, positions=positions, bonus_tokens=bonus_tokens, num_tokens_per_req=path_width(num_steps))


def forward_draft_extend(phase: EagleDraftExtendInput, topk: int, model: Model[Tensor], pools: Pools) -> DraftInput:
    """Run the draft model over the accepted tokens; the last row of each request starts its next draft.

    ``phase`` is prepared. Semantics D.4, D.5.
    """
    keys, rows = ragged_keys(phase, pools), phase.req_pool_indices
    batch = DraftExtendBatch(
        req_pool_indices=rows,
        input_ids=phase.input_ids,
        positions=phase.positions,
        out_cache_loc=phase.out_cache_loc,
        keys=keys,
        hidden_states=phase.hidden_states,
        select=keys.cu_seqlens_q[1:].long() - 1,
    )
    drafted = model.draft_extend(batch, pools.kv[Side.DRAFT])
    topk_p, topk_index = gpu.fast_topk(drafted.probabilities, topk)
    return DraftInput(
        req_pool_indices=rows,
        seq_lens=phase.seq_lens,
        topk_p=topk_p,
        topk_index=topk_index,
        hidden_states=drafted.hidden_states,
        bonus_tokens=phase.bonus_tokens,
    )


def ragged_keys(phase: EagleDraftExtendInput, pools: Pools) -> PagedKeys[Tensor]:
    """Return the keys of a forward over the accepted tokens."""
    rows, num_keys = phase.req_pool_indices, sum(phase.seq_lens_cpu)
    qo_indptr, kv_indptr, kv_indices = gpu.generate_attn_arg_prefill(
        rows, pools.req_to_token, phase.seq_lens, phase.num_accepted_tokens, num_keys
    )
    # NOTE: past a request's own keys its row of pages goes on with those of the next one, which nobody reads.
    place = kv_indptr[:-1, None] + torch.arange(max(phase.seq_lens_cpu, default=0), device=rows.device)
    page_table = kv_indices[place.clamp(max=max(num_keys - 1, 0))]
    return PagedKeys(page_table, phase.seq_lens.int(), qo_indptr, 1)
