"""Mutants: known faults, each in one operation, that the properties must find."""

from specsim.properties.mutants import (
    compact,
    draft,
    draft_cache,
    draft_history,
    extend,
    generated,
    heads,
    model,
    slots,
    tree,
    verify,
)
from specsim.properties.mutants.record import Mutant

__all__ = ["Mutant", "all_mutants"]


def all_mutants() -> tuple[Mutant, ...]:
    """Return every mutant, group after group."""
    modules = (draft, draft_cache, tree, verify, compact, slots, extend, model, draft_history, heads, generated)
    return tuple(mutant for module in modules for mutant in module.MUTANTS)
