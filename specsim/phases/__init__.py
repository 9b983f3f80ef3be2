"""What one phase of an iteration hands to the next: one frozen class a phase, tagged and shape-checked.

The arrays may be NumPy's or torch's. Both counts are always present, and neither is computed from the other here.
"""

from specsim.phases.dflash import DflashDraftInput, DflashVerifyInput
from specsim.phases.draft import DraftInput
from specsim.phases.extend import DraftExtendInput, EagleDraftExtendInput, ExtendLens, get_draft_extend_lens
from specsim.phases.forward import ForwardBatch, ForwardOutput
from specsim.phases.frozen_kv_mtp import (
    FrozenKVMTPDraftExtendInput,
    FrozenKVMTPDraftInput,
    FrozenKVMTPVerifyInput,
    to_frozen_kv_mtp_draft_extend_input,
)
from specsim.phases.joining import filter_batch, merge_batch
from specsim.phases.kinds import (
    Batch,
    Phase,
    expect_phase,
    get_spec_adjust_token_coefficient,
    get_spec_adjusted_global_num_tokens,
    is_draft_input,
    is_verify_input,
)
from specsim.phases.padding import (
    PaddingMode,
    SyncPlan,
    as_one_token_extend,
    pad_inputs_to_size,
    plan_mlp_sync_batch,
    post_forward_mlp_sync_batch,
)
from specsim.phases.tags import ForwardMode, PhaseTag
from specsim.phases.verify import VerifyInput, VerifyOutput

__all__ = [
    "Batch",
    "DflashDraftInput",
    "DflashVerifyInput",
    "DraftExtendInput",
    "DraftInput",
    "EagleDraftExtendInput",
    "ExtendLens",
    "ForwardBatch",
    "ForwardMode",
    "ForwardOutput",
    "FrozenKVMTPDraftExtendInput",
    "FrozenKVMTPDraftInput",
    "FrozenKVMTPVerifyInput",
    "PaddingMode",
    "Phase",
    "PhaseTag",
    "SyncPlan",
    "VerifyInput",
    "VerifyOutput",
    "as_one_token_extend",
    "expect_phase",
    "filter_batch",
    "get_draft_extend_lens",
    "get_spec_adjust_token_coefficient",
    "get_spec_adjusted_global_num_tokens",
    "is_draft_input",
    "is_verify_input",
    "merge_batch",
    "pad_inputs_to_size",
    "plan_mlp_sync_batch",
    "post_forward_mlp_sync_batch",
    "to_frozen_kv_mtp_draft_extend_input",
]
