"""The draft side of FROZEN_KV_MTP on the device: it reads the target's KV, has none, and never catches up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from specsim.assertion import require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.worker.frozen_draft import draft_frozen, frozen_draft_input, seed_of_extend, seed_of_prefill
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import TargetPrefill
from specsim.gpu.worker.sides import hot_tokens_of
from specsim.phases import (
    DraftExtendInput,
    DraftInput,
    EagleDraftExtendInput,
    VerifyInput,
    VerifyOutput,
    to_frozen_kv_mtp_draft_extend_input,
)
from specsim.simulation.models.batches import PagedKeys
from specsim.simulation.models.frozen import FrozenKVModel, require_frozen_model, warn_of_states
from specsim.simulation.sides import SideFacts


@dataclass(frozen=True)
class FrozenSide:
    """A draft over the target's KV: seeds start it, and it has no slots (semantics D.11)."""

    model: FrozenKVModel[Tensor]
    facts: SideFacts
    hot_token_id: Tensor | None

    @classmethod
    def of(cls, model: Any, config: SpecConfig, sizes: PoolSizes, has_dp_attention: bool = False) -> "FrozenSide":
        """Return the side of a model; beams are refused where other ranks wait."""
        del sizes
        description = require_frozen_model(model, "torch", config.topk, has_dp_attention)
        warn_of_states(description)
        return cls(model, SideFacts.of_seeds(description, config.topk), hot_tokens_of(description))

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its seed."""

    def prefill(self, behind: TargetPrefill, pools: Pools) -> DraftInput:
        """Return seeds; no forward runs."""
        del pools
        return seed_of_prefill(behind, self.facts.num_candidates)

    def draft(
        self, phase: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Tensor]
    ) -> VerifyInput:
        """Draft over what is committed."""
        return draft_frozen(self.model, phase, config, pools, self.hot_token_id, verify_slots)

    def extend(
        self,
        rows: Tensor,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        keys: PagedKeys[Tensor],
        pools: Pools,
    ) -> DraftInput:
        """Return what starts the next drafts: the rows that an extend would select, without its forward."""
        del keys, pools
        hidden_states = require_present("hidden states of the target", phase.hidden_states)
        seeds = hidden_states.index_select(0, phase.select_index)
        seq_lens = verify_input.seq_lens + phase.num_accepted_tokens
        return frozen_draft_input(rows, seq_lens, verify_output.bonus_tokens, seeds, self.facts.num_candidates)

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return it under the tag of FROZEN_KV_MTP."""
        return to_frozen_kv_mtp_draft_extend_input(phase)

    def extend_ragged(self, phase: EagleDraftExtendInput, pools: Pools) -> DraftInput:
        """Return what starts the next drafts of the requests that go on."""
        del pools
        return seed_of_extend(phase, self.facts.num_candidates)

    def state(self) -> dict[str, Any]:
        """Return nothing: seeds are the loop's."""
        return {}
