"""What drafts have in common whose input is candidates or a seed, and which follow a verify by an extend."""

from abc import abstractmethod
from typing import Any

from torch import Tensor

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.carried import DeviceWaiting, WaitingBatch, carried_rows, idle_input
from specsim.gpu.worker.compact import compact
from specsim.gpu.worker.extend import prepare_extend_after_decode
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import TargetPrefill, device_array
from specsim.phases import DraftExtendInput, DraftInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.simulation.sides import DraftSide, Followed, Setting, SideFacts


class ExtendedSide(DraftSide[Tensor, Pools, TargetPrefill, DeviceWaiting]):
    """A draft that a draft input starts, and that an extend of the accepted tokens catches up.

    Its vocabulary lies on the device, None where it is the target's.
    """

    def __init__(self, setting: Setting, facts: SideFacts) -> None:
        self.facts = facts
        self._setting = setting
        hot = facts.description.hot_token_id
        self._hot_token_id = None if hot is None else device_array(hot, DEVICE)

    def waiting(self, is_v1: bool) -> DeviceWaiting:
        """Return an empty batch for V1, and rows for V2."""
        sizes = self._setting.sizes
        return WaitingBatch(self.facts, sizes) if is_v1 else carried_rows(self.facts, sizes)

    def follow(
        self,
        start: DraftInput,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Tensor]:
        """Bring ids and hidden states of the paths to the front, and extend over all nodes."""
        extend_input = compact(verify_input, verify_output, config.topk == 1)
        extended = self.extend(start.req_pool_indices, verify_input, verify_output, extend_input, pools)
        return Followed(extended, extend_input, extend_input.input_ids.int().view(-1, config.num_draft_tokens))

    def follow_ragged(
        self,
        start: DraftInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Tensor]:
        """Extend over the accepted tokens of the requests that go on; without any, return an idle input."""
        extend_input = self.to_extend_input(going_on)
        if not extend_input.num_requests and not self._setting.has_dp_attention:
            return Followed(idle_input(self.facts), extend_input)
        prepared = prepare_extend_after_decode(extend_input, config.num_steps)
        return Followed(self.extend_ragged(prepared, pools), extend_input)

    def resized(self, setting: Setting) -> "ExtendedSide":
        """Return a side of other sizes, which keeps nothing."""
        make: Any = type(self)
        side: ExtendedSide = make(setting)
        return side

    @abstractmethod
    def extend(
        self,
        row: Tensor,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
    ) -> DraftInput:
        """Catch up with a verify of V2, in windows of one width; the pools have the keys of the verify."""

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return what V1 hands over after a verify under the tag of the algorithm."""
        return phase

    @abstractmethod
    def extend_ragged(self, phase: EagleDraftExtendInput, pools: Pools) -> DraftInput:
        """Catch up with a verify of V1, on the accepted tokens of the requests that go on, which are prepared."""
