"""Rare conditions of whole runs: a fault shows in one of them alone, so that a strategy draws it on purpose."""

from collections.abc import Callable
from enum import StrEnum

from specsim.conformance.limits import Limits


class Condition(StrEnum):
    """One condition, which a law reports when it meets it."""

    LAYERS = "ranks in different layers of a draft"
    PAGES_OF_BEAMS = "a beam that reads a copied page"
    SAMPLED_CHUNK = "a chunk of a sampled request that ends inside its former output"
    LAST_TOKEN = "a last chunk of one token with recurrent states"


SHARES = {Condition.LAYERS: 0.9, Condition.PAGES_OF_BEAMS: 0.5, Condition.SAMPLED_CHUNK: 0.9, Condition.LAST_TOKEN: 0.3}
"""The least share of the examples of its law that meets each condition."""


def tags_of(*conditions: Condition) -> Callable[[Limits], tuple[str, ...]]:
    """Return what says which conditions the examples of a property have to meet, whatever the limits are."""
    return lambda limits: tuple(map(str, conditions))
