"""What drafts have in common whose input is candidates or a seed, and which follow a verify by an extend."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from specsim.assertion import require_kind
from specsim.config import SpecConfig
from specsim.counts import path_width
from specsim.operations.protocol import Operations
from specsim.phases import (
    Batch,
    DraftExtendInput,
    DraftInput,
    EagleDraftExtendInput,
    ForwardMode,
    PhaseTag,
    VerifyInput,
    VerifyOutput,
    expect_phase,
)
from specsim.simulation.draft_sides.layer import AnyPools, ArrayLibrary
from specsim.simulation.sides import DraftSide, Followed, Setting, SideFacts


class ExtendedSide(DraftSide[Any, AnyPools, Any, Any]):
    """A draft that a draft input starts, and that an extend of the accepted tokens catches up."""

    def __init__(self, setting: Setting, facts: SideFacts) -> None:
        self.facts = facts
        self._setting = setting
        self._operations: Operations[Any] = setting.operations
        self._arrays: ArrayLibrary = setting.arrays
        hot = facts.description.hot_token_id
        self._hot_token_id = None if hot is None else self._arrays.asarray(hot)

    def waiting(self, is_v1: bool) -> Any:
        """Return an empty batch for V1, and rows for V2."""
        return self._setting.make_waiting(self.facts, self._setting.sizes, self._operations, is_v1)

    def follow(
        self,
        start: DraftInput,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: AnyPools,
    ) -> Followed[Any]:
        """Bring ids and hidden states of the paths to the front, and extend over all nodes."""
        is_chain = config.topk == 1
        compacted = self._arrays.compact(verify_input, verify_output, is_chain, self._operations)
        extend_input, seq_lens, tokens = compacted
        extended = self.extend(start.req_pool_indices, verify_input, verify_output, extend_input, seq_lens, pools)
        return Followed(extended, extend_input, tokens.reshape(-1, config.num_draft_tokens))

    def follow_ragged(
        self,
        start: DraftInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: AnyPools,
    ) -> Followed[Any]:
        """Extend over the accepted tokens of the requests that go on; without any, return an idle input."""
        extend_input = self.to_extend_input(going_on)
        if not extend_input.num_requests and not self._setting.has_dp_attention:
            return Followed(self.facts.idle_input(self._arrays.zeros), extend_input)
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
        row: Any,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        seq_lens: Any,
        pools: AnyPools,
    ) -> DraftInput:
        """Catch up with a verify of V2, in windows of one width; ``seq_lens`` int64 [request] are those after it."""

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return what V1 installs after a verify under the tag that ``extend_ragged`` expects."""
        return phase

    @abstractmethod
    def extend_ragged(self, batch: Batch, pools: AnyPools) -> DraftInput:
        """Catch up with a verify of V1, on the accepted tokens of the requests that go on."""

    def _map_hot(self, topk_index: Any) -> Any:
        """Return target-vocabulary ids of what the draft proposes."""
        hot = self._hot_token_id
        return topk_index if hot is None else self._operations.map_hot_tokens(topk_index, hot)


def prepare_extend_after_decode(batch: Batch, num_steps: int, operations: Any) -> Batch:
    """Return the batch as the draft-extend sees it: the requests that go on, their positions and bonus tokens.

    Parameters
    ----------
    batch : Batch
        With a ragged draft-extend input installed; it is left as it is.
    num_steps : int
        Depth of a tree: a request has at most one token more.

    Raises
    ------
    SpecRejection
        WRONG_PHASE: something else is installed.

    Notes
    -----
    Source: semantics D.2, D.3.
    """
    phase = installed(batch, PhaseTag.EAGLE_DRAFT_EXTEND, PhaseTag.FROZEN_KV_MTP_DRAFT_EXTEND)
    prepared = operations.create_extend_after_decode_spec_info(
        phase.input_ids, phase.seq_lens, phase.num_accepted_tokens
    )
    return Batch(
        mode=ForwardMode.DRAFT_EXTEND if phase.num_requests else ForwardMode.IDLE,
        req_pool_indices=phase.req_pool_indices,
        seq_lens=phase.seq_lens,
        info=replace(
            phase,
            positions=prepared.positions,
            bonus_tokens=prepared.bonus_tokens,
            num_tokens_per_req=path_width(num_steps),
        ),
    )


def installed(batch: Batch, *tags: PhaseTag) -> EagleDraftExtendInput:
    """Return the ragged draft-extend input of a batch.

    Raises
    ------
    SpecRejection
        WRONG_PHASE: something else is installed, or it has another tag.
    """
    expect_phase(batch.info, *tags)
    return require_kind("what is installed", batch.info, EagleDraftExtendInput)
