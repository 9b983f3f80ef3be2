"""Mutants: known faults, each in one operation, that the properties must find."""

from specsim.properties.mutants import (
    adaptive,
    algorithms,
    compact,
    draft,
    draft_cache,
    draft_history,
    extend,
    extend_v1,
    generated,
    heads,
    metrics,
    model,
    phases,
    rules,
    simulated,
    slots,
    stops,
    tree,
    verify,
)
from specsim.properties.mutants.record import Mutant

__all__ = ["Mutant", "all_mutants"]


def all_mutants() -> tuple[Mutant, ...]:
    """Return every mutant, group after group."""
    modules = (
        draft,
        draft_cache,
        tree,
        verify,
        compact,
        slots,
        extend,
        extend_v1,
        phases,
        model,
        draft_history,
        heads,
        metrics,
        simulated,
        stops,
        algorithms,
        rules,
        adaptive,
        generated,
    )
    return tuple(mutant for module in modules for mutant in module.MUTANTS)
