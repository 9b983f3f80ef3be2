"""What a model has for a drafter, by the fields of the toy models."""

from collections.abc import Sequence
from typing import Any

from specsim.algorithms import Drafter
from specsim.simulation.models.description import DraftSource


def fields_for(drafter: Drafter, num_steps: int = 0, shared_layers: Sequence[int] = ()) -> dict[str, Any]:
    """Return the fields of a toy model that a drafter needs, those without which it would run for another one.

    Parameters
    ----------
    num_steps : int
        Layers of a draft that has one a step.
    shared_layers : sequence of int
        Layer of the target that each draft layer reads, where the draft reads the target's KV.
    """
    needed: dict[str, Any] = {}
    if drafter.draft_source != DraftSource.HIDDEN.name:
        needed["draft_source"] = DraftSource[drafter.draft_source]
    if drafter.is_multi_layer:
        needed["num_draft_layers"] = num_steps
    if drafter.reads_all_layers:
        needed["reads_all_layers"] = True
    if drafter.reads_target_kv:
        needed["kv_sharing"] = tuple(shared_layers)
    return needed
