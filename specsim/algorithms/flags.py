"""What an algorithm is and can do: one row of flags, and the predicates that read it (semantics G.1)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Flags:
    """The row of one algorithm; a flag that is not named is false.

    Parameters
    ----------
    is_none : bool
        Nothing is drafted.
    is_eagle : bool
        The draft model reads the target's hidden states.
    is_eagle3, is_frozen_kv_mtp, is_dflash, is_standalone, is_ngram : bool
        It is that algorithm.
    supports_spec_v2 : bool
        The worker V2 can run it.
    supports_target_verify_for_draft : bool
        Its draft worker may run a target verify.
    """

    is_none: bool = False
    is_eagle: bool = False
    is_eagle3: bool = False
    is_frozen_kv_mtp: bool = False
    is_dflash: bool = False
    is_standalone: bool = False
    is_ngram: bool = False
    supports_spec_v2: bool = False
    supports_target_verify_for_draft: bool = False


NO_FLAG = Flags()
"""The row of an algorithm that drafts, and of which nothing else is known."""


class Predicates:
    """The questions that engines ask of an algorithm, built-in or plugged in: each reads the algorithm's row."""

    flags: Flags

    def is_none(self) -> bool:
        """Return whether nothing is drafted."""
        return self.flags.is_none

    def is_speculative(self) -> bool:
        """Return whether anything is drafted."""
        return not self.is_none()

    def is_some(self) -> bool:
        """Return whether anything is drafted, as ``is_speculative`` does."""
        return not self.is_none()

    def is_eagle(self) -> bool:
        """Return whether the draft model reads the target's hidden states."""
        return self.flags.is_eagle

    def is_eagle3(self) -> bool:
        """Return whether it is EAGLE3."""
        return self.flags.is_eagle3

    def is_frozen_kv_mtp(self) -> bool:
        """Return whether it is FROZEN_KV_MTP."""
        return self.flags.is_frozen_kv_mtp

    def is_dflash(self) -> bool:
        """Return whether it is DFLASH."""
        return self.flags.is_dflash

    def is_standalone(self) -> bool:
        """Return whether it is STANDALONE."""
        return self.flags.is_standalone

    def is_ngram(self) -> bool:
        """Return whether it is NGRAM."""
        return self.flags.is_ngram

    def supports_spec_v2(self) -> bool:
        """Return whether the worker V2 can run it."""
        return self.flags.supports_spec_v2

    def supports_target_verify_for_draft(self) -> bool:
        """Return whether its draft worker may run a target verify."""
        return self.flags.supports_target_verify_for_draft

    def get_num_tokens_per_bs_for_target_verify(self, num_draft_tokens: int, is_draft_worker: bool) -> int:
        """Return how many tokens a request brings to a target verify (semantics G.4)."""
        return num_draft_tokens
