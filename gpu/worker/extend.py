"""The draft-extend on the device: the draft catches up with the target, and what it proposes starts the next draft."""

from torch import Tensor

from specsim import gpu
from specsim.gpu.worker.pools import Pools
from specsim.phases import DraftExtendInput, DraftInput, VerifyInput, VerifyOutput
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
