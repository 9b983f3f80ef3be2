"""What drafts have in common whose input is candidates or a seed, and which follow a verify by an extend."""

from abc import abstractmethod
from typing import Any

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.phases import (
    Batch,
    DraftExtendInput,
    DraftInput,
    EagleDraftExtendInput,
    ForwardMode,
    VerifyInput,
    VerifyOutput,
)
from specsim.reference.worker.carried import WaitingBatch, WaitingRows, idle_input
from specsim.reference.worker.compact import compact
from specsim.reference.worker.extend import prepare_extend_after_decode
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.simulation.sides import DraftSide, Followed, Setting, SideFacts, Waiting


class ExtendedSide(DraftSide[Array, Pools, TargetPrefill, Waiting]):
    """A draft that a draft input starts, and that an extend of the accepted tokens catches up."""

    def __init__(self, setting: Setting, facts: SideFacts) -> None:
        self.facts = facts
        self._setting = setting
        self._operations: CallsByName = setting.operations

    def waiting(self, is_v1: bool) -> Waiting:
        """Return an empty batch for V1, and rows for V2."""
        if is_v1:
            return WaitingBatch(self.facts, self._setting.sizes, self._operations)
        return WaitingRows(self.facts, self._setting.sizes)

    def follow(
        self,
        start: DraftInput,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Bring ids and hidden states of the paths to the front, and extend over all nodes."""
        row, width = start.req_pool_indices, config.num_draft_tokens
        extend_input = compact(verify_input, verify_output, config.topk == 1, self._operations)
        extended = self.extend(row, verify_input, verify_output, extend_input, pools)
        return Followed(extended, extend_input, extend_input.input_ids.astype(np.int32).reshape(len(row), width))

    def follow_ragged(
        self,
        start: DraftInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Extend over the accepted tokens of the requests that go on; without any, return an idle input."""
        del start
        extend_input = self.to_extend_input(going_on)
        if not extend_input.num_requests and not self._setting.has_dp_attention:
            return Followed(idle_input(self.facts), extend_input)
        batch = Batch(ForwardMode.DECODE, everyone.req_pool_indices, everyone.seq_lens, extend_input)
        prepared = prepare_extend_after_decode(batch, config.num_steps, self._operations)
        return Followed(self.extend_ragged(prepared, pools), extend_input)

    def resized(self, setting: Setting) -> "ExtendedSide":
        """Return a side of other sizes, which keeps nothing."""
        make: Any = type(self)
        side: ExtendedSide = make(setting)
        return side

    @abstractmethod
    def extend(
        self,
        row: Array,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
    ) -> DraftInput:
        """Catch up with a verify of V2, in windows of one width."""

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return what V1 installs after a verify under the tag that ``extend_ragged`` expects."""
        return phase

    @abstractmethod
    def extend_ragged(self, batch: Batch, pools: Pools) -> DraftInput:
        """Catch up with a verify of V1, on the accepted tokens of the requests that go on."""
