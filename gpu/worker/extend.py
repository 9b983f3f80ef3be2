"""What V1 prepares for a draft that catches up on exactly the accepted tokens of the requests that go on."""

from dataclasses import replace

import torch
from torch import Tensor

from specsim import gpu
from specsim.counts import path_width
from specsim.gpu.worker.pools import Pools
from specsim.phases import EagleDraftExtendInput
from specsim.simulation.models.batches import PagedKeys


def prepare_extend_after_decode(phase: EagleDraftExtendInput, num_steps: int) -> EagleDraftExtendInput:
    """Return the extend with its positions and bonus tokens (semantics D.2, D.3)."""
    positions, bonus_tokens = gpu.create_extend_after_decode_spec_info(
        phase.input_ids, phase.seq_lens, phase.num_accepted_tokens
    )
    return replace(phase, positions=positions, bonus_tokens=bonus_tokens, num_tokens_per_req=path_width(num_steps))


def ragged_keys(phase: EagleDraftExtendInput, pools: Pools) -> PagedKeys[Tensor]:
    """Return the keys of a forward over the accepted tokens."""
    rows, num_keys = phase.req_pool_indices, sum(phase.seq_lens_cpu)
    qo_indptr, kv_indptr, kv_indices = gpu.generate_attn_arg_prefill(
        rows, pools.req_to_token, phase.seq_lens, phase.num_accepted_tokens, num_keys
    )
    # NOTE: past a request's own keys its row of pages goes on with those of the next one, which no one reads.
    place = kv_indptr[:-1, None] + torch.arange(max(phase.seq_lens_cpu, default=0), device=rows.device)
    page_table = kv_indices[place.clamp(max=max(num_keys - 1, 0))]
    return PagedKeys(page_table, phase.seq_lens.int(), qo_indptr, 1)
