"""Which phase reads an object, and what a forward does with its batch."""

from enum import StrEnum

from specsim.algorithms.inputs import SpecInputType


class PhaseTag(StrEnum):
    """Which phase reads an object.

    The values are those of ``SpecInputType`` and two of the project's own: the extend of fixed width, which has the
    type of an extend but another layout, and what verify hands over, which is no input of an engine's batch.
    """

    DFLASH_DRAFT = SpecInputType.DFLASH_DRAFT.value
    DFLASH_VERIFY = SpecInputType.DFLASH_VERIFY.value
    EAGLE_DRAFT = SpecInputType.EAGLE_DRAFT.value
    EAGLE_DRAFT_EXTEND = SpecInputType.EAGLE_DRAFT_EXTEND.value
    EAGLE_DRAFT_EXTEND_V2 = "EAGLE_DRAFT_EXTEND_V2"
    EAGLE_VERIFY = SpecInputType.EAGLE_VERIFY.value
    EAGLE_VERIFY_OUTPUT = "EAGLE_VERIFY_OUTPUT"
    FROZEN_KV_MTP_DRAFT = SpecInputType.FROZEN_KV_MTP_DRAFT.value
    FROZEN_KV_MTP_DRAFT_EXTEND = SpecInputType.FROZEN_KV_MTP_DRAFT_EXTEND.value
    FROZEN_KV_MTP_VERIFY = SpecInputType.FROZEN_KV_MTP_VERIFY.value

    @property
    def input_type(self) -> SpecInputType | None:
        """The type that an engine gives the object; None for what is no input of a batch."""
        if self is PhaseTag.EAGLE_VERIFY_OUTPUT:
            return None
        if self is PhaseTag.EAGLE_DRAFT_EXTEND_V2:
            return SpecInputType.EAGLE_DRAFT_EXTEND
        return SpecInputType(self.value)


class ForwardMode(StrEnum):
    """What a forward does with its batch."""

    EXTEND = "EXTEND"
    DECODE = "DECODE"
    TARGET_VERIFY = "TARGET_VERIFY"
    DRAFT_EXTEND = "DRAFT_EXTEND"
    DRAFT_EXTEND_V2 = "DRAFT_EXTEND_V2"
    IDLE = "IDLE"
