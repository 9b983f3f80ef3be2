"""What one phase of an iteration hands to the next: one frozen class a phase, tagged and shape-checked.

The arrays may be NumPy's or torch's. Both counts are always present, and neither is computed from the other here.
"""

from specsim.phases.batch import Batch
from specsim.phases.draft import DraftInput
from specsim.phases.extend import DraftExtendInput, EagleDraftExtendInput
from specsim.phases.frozen_kv_mtp import (
    FrozenKVMTPDraftExtendInput,
    FrozenKVMTPDraftInput,
    FrozenKVMTPVerifyInput,
    to_frozen_kv_mtp_draft_extend_input,
)
from specsim.phases.joining import filter_batch, merge_batch
from specsim.phases.kinds import (
    Phase,
    expect_phase,
    get_spec_adjust_token_coefficient,
    get_spec_adjusted_global_num_tokens,
    is_draft_input,
    is_verify_input,
)
from specsim.phases.tags import ForwardMode, PhaseTag
from specsim.phases.verify import VerifyInput, VerifyOutput

__all__ = [
    "Batch",
    "DraftExtendInput",
    "DraftInput",
    "EagleDraftExtendInput",
    "ForwardMode",
    "FrozenKVMTPDraftExtendInput",
    "FrozenKVMTPDraftInput",
    "FrozenKVMTPVerifyInput",
    "Phase",
    "PhaseTag",
    "VerifyInput",
    "VerifyOutput",
    "expect_phase",
    "filter_batch",
    "get_spec_adjust_token_coefficient",
    "get_spec_adjusted_global_num_tokens",
    "is_draft_input",
    "is_verify_input",
    "merge_batch",
    "to_frozen_kv_mtp_draft_extend_input",
]
