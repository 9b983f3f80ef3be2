"""Faults in penalties."""

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_of, of_the_first, of_the_neighbour, with_arguments

_FREQUENCY = "values = values - frequency_penalty[request] * counts.astype(np.float32)"
_PRESENCE = "values = np.where(counts > 0, values - presence_penalty[request], values)"
_SCALED = """
scale = repetition_penalty[request]
scaled = np.where(values > 0, values / scale, values * scale)
"""
_SCALED_LAST = f"{_SCALED}\npenalised_logits[row] = np.where(counts > 0, scaled, values)"
_SCALED_BEFORE = f"{_SCALED}\nvalues = np.where(counts > 0, scaled, values)"
_IN_ORDER = f"{_FREQUENCY}\n{_PRESENCE}\n{_SCALED_LAST}"
_LAST = "penalised_logits[row] = values"

_IS_SEEN = 'axes["exact"] and masks[request, node, draft]'
_COUNT = "counts[draft_token[request * num_nodes + draft]] += 1"
_COUNT_ONCE = """
token = draft_token[request * num_nodes + draft]
counts[token] = token_counts[request, token] + 1
"""

MUTANTS = mutants_of(
    "apply_penalties",
    ("OWN-471", "Penalties do not know the path of a node.", with_arguments(exact=False)),
    ("OWN-472", "Relaxed penalties know the path of a node.", with_arguments(exact=True)),
    ("OWN-473", "A token of the path counts once, not as often as it occurs.", edited(_COUNT, _COUNT_ONCE)),
    (
        "OWN-474",
        "The root counts as output and as a node of the path.",
        edited("range(1, num_nodes)", "range(num_nodes)", _IS_SEEN, f"{_IS_SEEN} or (axes['exact'] and draft == 0)"),
    ),
    ("OWN-475", "All nodes of the tree count for each node.", edited(_IS_SEEN, 'axes["exact"]')),
    ("OWN-476", "A node's own token does not count for it.", edited(_IS_SEEN, f"{_IS_SEEN} and draft != node")),
    (
        "OWN-477",
        "Of a path only the last two nodes count.",
        edited(_IS_SEEN, f"{_IS_SEEN} and not masks[request, node, draft + 1 : node].any()"),
    ),
    ("OWN-478", "The tokens of the path replace those that were output.", with_arguments(token_counts=np.zeros_like)),
    (
        "OWN-479",
        "Logits are scaled before they are lessened.",
        edited(_IN_ORDER, f"{_SCALED_BEFORE}\n{_FREQUENCY}\n{_PRESENCE}\n{_LAST}"),
    ),
    (
        "OWN-480",
        "Logits are scaled between the two differences.",
        edited(_IN_ORDER, f"{_FREQUENCY}\n{_SCALED_BEFORE}\n{_PRESENCE}\n{_LAST}"),
    ),
    (
        "OWN-481",
        "Negative logits are divided too.",
        edited("np.where(values > 0, values / scale, values * scale)", "values / scale"),
    ),
    (
        "OWN-482",
        "Presence is penalised for every occurrence.",
        edited(_PRESENCE, "values = values - presence_penalty[request] * counts.astype(np.float32)"),
    ),
    ("OWN-483", "Every request has the frequency penalty of the first.", of_the_first("frequency_penalty")),
    ("OWN-484", "A request has the counts of its neighbour.", of_the_neighbour("token_counts")),
)
