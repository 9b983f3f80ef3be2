"""Frozen-KV MTP: a draft model that reads the target's KV and writes none; its phases have tags of their own."""

from dataclasses import dataclass, fields
from typing import ClassVar

from specsim.phases.draft import DraftInput
from specsim.phases.extend import EagleDraftExtendInput
from specsim.phases.tags import PhaseTag
from specsim.phases.verify import VerifyInput
from specsim.rejection import Reason, SpecRejection


@dataclass(frozen=True)
class FrozenKVMTPDraftInput(DraftInput):
    """A draft input of Frozen-KV MTP: another tag, the same fields."""

    tag: ClassVar[PhaseTag] = PhaseTag.FROZEN_KV_MTP_DRAFT


@dataclass(frozen=True)
class FrozenKVMTPDraftExtendInput(EagleDraftExtendInput):
    """A draft-extend input of Frozen-KV MTP: another tag, the same fields."""

    tag: ClassVar[PhaseTag] = PhaseTag.FROZEN_KV_MTP_DRAFT_EXTEND


@dataclass(frozen=True)
class FrozenKVMTPVerifyInput(VerifyInput):
    """A verify input of Frozen-KV MTP: another tag, the same fields."""

    tag: ClassVar[PhaseTag] = PhaseTag.FROZEN_KV_MTP_VERIFY


def to_frozen_kv_mtp_draft_extend_input(phase: EagleDraftExtendInput) -> FrozenKVMTPDraftExtendInput:
    """Return the input under the tag of Frozen-KV MTP: itself if it has it, else a copy of every field.

    Raises
    ------
    SpecRejection
        WRONG_PHASE: it is no ragged draft-extend input.

    Notes
    -----
    Source: semantics D.11.
    """
    if isinstance(phase, FrozenKVMTPDraftExtendInput):
        return phase
    if not isinstance(phase, EagleDraftExtendInput):
        expected, because = PhaseTag.EAGLE_DRAFT_EXTEND, "only a ragged draft-extend input has those fields"
        raise SpecRejection(Reason.WRONG_PHASE, "phase input", type(phase).__name__, expected, because)
    return FrozenKVMTPDraftExtendInput(
        **{field.name: getattr(phase, field.name) for field in fields(EagleDraftExtendInput)}
    )
