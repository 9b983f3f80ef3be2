"""Types of the objects that phases hand to each other (semantics G.5)."""

from enum import StrEnum


class SpecInputType(StrEnum):
    """What a batch carries beside its tokens, by algorithm and phase."""

    EAGLE_DRAFT = "EAGLE_DRAFT"
    EAGLE_DRAFT_EXTEND = "EAGLE_DRAFT_EXTEND"
    EAGLE_VERIFY = "EAGLE_VERIFY"
    FROZEN_KV_MTP_DRAFT = "FROZEN_KV_MTP_DRAFT"
    FROZEN_KV_MTP_DRAFT_EXTEND = "FROZEN_KV_MTP_DRAFT_EXTEND"
    FROZEN_KV_MTP_VERIFY = "FROZEN_KV_MTP_VERIFY"
    DFLASH_DRAFT = "DFLASH_DRAFT"
    DFLASH_VERIFY = "DFLASH_VERIFY"
    NGRAM_VERIFY = "NGRAM_VERIFY"

    def is_draft_input(self) -> bool:
        """Return whether a draft model reads it, to draft or to catch up."""
        return self in (
            SpecInputType.EAGLE_DRAFT,
            SpecInputType.EAGLE_DRAFT_EXTEND,
            SpecInputType.FROZEN_KV_MTP_DRAFT,
            SpecInputType.FROZEN_KV_MTP_DRAFT_EXTEND,
            SpecInputType.DFLASH_DRAFT,
        )

    def is_verify_input(self) -> bool:
        """Return whether a target verify reads it."""
        return self in (
            SpecInputType.EAGLE_VERIFY,
            SpecInputType.FROZEN_KV_MTP_VERIFY,
            SpecInputType.DFLASH_VERIFY,
            SpecInputType.NGRAM_VERIFY,
        )
