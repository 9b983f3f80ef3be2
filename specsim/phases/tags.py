"""Which phase reads an object, and which hidden states a forward keeps."""

from enum import IntEnum, StrEnum

from specsim.algorithms.inputs import SpecInputType


class PhaseTag(StrEnum):
    """Which phase reads an object.

    The values are those of ``SpecInputType`` and two of the project's own: the extend of fixed width, which has the
    type of an extend but another layout, and what verify hands over, which is no input of an engine's batch.
    """

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


class CaptureHiddenMode(IntEnum):
    """Which hidden states a forward keeps: none, one a request, or one a token."""

    NULL = 0
    LAST = 1
    FULL = 2


class ForwardMode(StrEnum):
    """What a forward does with its batch."""

    DECODE = "DECODE"
    TARGET_VERIFY = "TARGET_VERIFY"
    DRAFT_EXTEND = "DRAFT_EXTEND"
    IDLE = "IDLE"
