"""What DFLASH decides on the host: which layers of the target its draft reads."""

from specsim.rejection import Reason, SpecRejection

LAYERS_AT_THE_ENDS = 4
"""The first feature is of layer 1, the last one of the fourth layer from the end (semantics A.14b)."""


def target_feature_layers(num_target_layers: int, num_features: int) -> tuple[int, ...]:
    """Return the layers of the target whose hidden states are projected into the draft's KV, where nobody names them.

    Parameters
    ----------
    num_target_layers : int
        Layers of the target.
    num_features : int
        How many of them are read.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: no feature, or several of a target that has no layers between its ends.

    Notes
    -----
    Source: semantics A.14b. A place half way between two layers is the even one.
    """
    fewest = 1 if num_features == 1 else LAYERS_AT_THE_ENDS
    for what, got, least in (
        ("num_features", num_features, 1),
        ("num_target_layers", num_target_layers, fewest),
    ):
        if got < least:
            raise SpecRejection(
                Reason.SCALAR_OUT_OF_RANGE,
                what=what,
                got=got,
                expected=f"at least {least}",
                because="features are spread over the layers between the ends of the target",
            )
    if num_features == 1:
        return (num_target_layers // 2,)
    span = num_target_layers - LAYERS_AT_THE_ENDS
    return tuple(round(1 + place * span / (num_features - 1)) for place in range(num_features))
