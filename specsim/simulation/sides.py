"""What a loop knows of its draft side before the first token, in every layer."""

from dataclasses import dataclass

from specsim.phases import DraftInput, FrozenKVMTPDraftInput
from specsim.simulation.models.description import ModelDescription


@dataclass(frozen=True)
class SideFacts:
    """Facts about a draft side.

    Parameters
    ----------
    description : ModelDescription
        What the model says of itself.
    num_candidates : int
        Tokens that wait of every request between iterations.
    borrows : bool
        Whether a draft writes slots of its own, which V1 borrows for it.
    has_kv : bool
        Whether the draft has KV, which an extend lets catch up, and whose entries consumed the token behind their
        position. Without any, caches hold at a position what its own token says, and are final as the target's are.
    draft_input : type
        The class of what V1 carries to start a draft.
    zeroes_padding : bool
        Whether padded rows of all that is carried are zeroed, not only those that say what is read.
    """

    description: ModelDescription
    num_candidates: int
    borrows: bool = True
    has_kv: bool = True
    draft_input: type[DraftInput] = DraftInput
    zeroes_padding: bool = False

    @classmethod
    def of_seeds(cls, description: ModelDescription, num_candidates: int) -> "SideFacts":
        """Return the facts of a draft without KV, which seeds start."""
        return cls(description, num_candidates, False, False, FrozenKVMTPDraftInput, zeroes_padding=True)
