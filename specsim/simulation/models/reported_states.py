"""Hidden states that users are handed beside those that the draft consumes: which are asked for, and whose is which."""

from dataclasses import replace
from typing import Any, TypeVar

from specsim.assertion import require, require_present
from specsim.simulation.models.batches import TargetOutput
from specsim.simulation.models.description import FINAL_LAYER, ModelDescription

ArrayT = TypeVar("ArrayT")


def layers_to_ask(description: ModelDescription, wants_report: bool) -> tuple[int, ...]:
    """Return the layers that a target forward is asked for: the draft's, and the final one if a user is handed it.

    Where the draft consumes the final one anyway, nothing is added.
    """
    layers = description.hidden_layers
    return layers if not wants_report or FINAL_LAYER in layers else (*layers, FINAL_LAYER)


def part_states(
    description: ModelDescription, output: TargetOutput[ArrayT], wants_report: bool, select: ArrayT | None = None
) -> TargetOutput[ArrayT]:
    """Return the output with hidden states of the draft's layers alone, and what users are handed beside them.

    Parameters
    ----------
    output : TargetOutput
        As the target returned it, with the layers of ``layers_to_ask`` side by side.
    wants_report : bool
        Whether a user is handed hidden states.
    select : int64 [row] or None
        The tokens whose logits were asked for; None for all.

    Raises
    ------
    AssertionError
        Its hidden states are not as wide as the layers that were asked for.

    Notes
    -----
    Source: semantics C.8.
    """
    if not wants_report:
        return output
    layers, width = layers_to_ask(description, wants_report), description.hidden_width
    everything: Any = require_present("hidden states of the target", output.hidden_states)
    got, expected = everything.shape[1], len(layers) * width
    require(got == expected, f"width of the hidden states of {description.name}", got, expected)
    begin = layers.index(FINAL_LAYER) * width
    final = everything[:, begin : begin + width]
    num_drafted = len(description.hidden_layers) * width
    return replace(
        output,
        hidden_states=everything[:, :num_drafted] if num_drafted else None,
        reported_states=final if select is None else final[select],
    )
