"""The production V2 worker of FROZEN_KV_MTP: seeds wait by row, and nothing of the draft catches up behind a verify."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from specsim.assertion import require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.worker.frozen_draft import draft_frozen, frozen_draft_input, seed_of_extend, seed_of_prefill
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import TargetPrefill
from specsim.gpu.worker.sides import MakeSide, hot_tokens_of
from specsim.gpu.worker.v2 import GpuWorker
from specsim.phases import DraftExtendInput, DraftInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.simulation.models.batches import PagedKeys
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.models.frozen import FrozenKVModel, require_frozen_model, warn_of_states
from specsim.simulation.requests import PromptChunk


@dataclass(frozen=True)
class FrozenSide:
    """A draft over the target's KV: seeds start it, it has no slots, and it never catches up (semantics D.11)."""

    model: FrozenKVModel[Tensor]
    description: ModelDescription
    num_candidates: int
    hot_token_id: Tensor | None
    borrows: bool = False

    @classmethod
    def of(cls, model: Any, config: SpecConfig, sizes: PoolSizes) -> "FrozenSide":
        """Return the side of a model."""
        del sizes
        description = require_frozen_model(model, "torch", config.topk)
        warn_of_states(description)
        return cls(model, description, config.topk, hot_tokens_of(description))

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its seed."""

    def prefill(
        self, rows: Sequence[int], chunks: Sequence[PromptChunk], behind: TargetPrefill, pools: Pools
    ) -> DraftInput:
        """Return seeds; no forward runs."""
        del rows, chunks, pools
        return seed_of_prefill(behind, self.num_candidates)

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
        return frozen_draft_input(rows, seq_lens, verify_output.bonus_tokens, seeds, self.num_candidates)

    def extend_ragged(self, phase: EagleDraftExtendInput, pools: Pools) -> DraftInput:
        """Return what starts the next drafts of the requests that go on."""
        del pools
        return seed_of_extend(phase, self.num_candidates)

    def state(self) -> dict[str, Any]:
        """Return nothing: seeds are the loop's."""
        return {}


class GpuFrozenKVMTPWorkerV2(GpuWorker):
    """The V2 worker with another draft side; whole iterations are captured as graphs.

    Raises
    ------
    SpecRejection
        As ``GpuFrozenKVMTPWorker`` does.
    """

    has_plain_keys = True

    def __init__(
        self,
        config: SpecConfig,
        model: FrozenKVModel[Tensor],
        sizes: PoolSizes,
        use_graphs: bool | None = None,
        pads: bool = False,
        pools: Pools | None = None,
        make_side: MakeSide = FrozenSide.of,
        name: str = "gpu-frozen-kv-mtp-v2",
    ) -> None:
        super().__init__(config, model, sizes, use_graphs, pads, pools, make_side, name)
