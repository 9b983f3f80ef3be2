"""How much of the target's features an entry of the toy draft holds."""

from specsim.rejection import Reason, check_range

WORDS_OF_A_LAYER = 4
"""Words of a layer's entry that are free: two each of K and V, between its position and its component."""


def require_room(num_words: int, num_layers: int) -> None:
    """Refuse features that the entries of a position cannot hold.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION.
    """
    check_range(
        Reason.BAD_CONFIGURATION,
        "words of the target's hidden state",
        num_words,
        f"each of the {num_layers} layers of the toy draft holds {WORDS_OF_A_LAYER}",
        most=WORDS_OF_A_LAYER * num_layers,
    )
