"""Mutants: known faults, each in one operation, that the properties must find."""

from specsim.properties.mutants import (
    acceptance,
    adaptive,
    algorithms,
    attention,
    chains,
    compact,
    draft,
    draft_cache,
    draft_history,
    extend,
    extend_v1,
    forwards,
    from_logits,
    generated,
    grammar,
    heads,
    metrics,
    phases,
    probabilities,
    processors,
    rules,
    sampling,
    simulated,
    slots,
    stops,
    target_rows,
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
        attention,
        grammar,
        processors,
        probabilities,
        target_rows,
        acceptance,
        chains,
        from_logits,
        compact,
        slots,
        extend,
        extend_v1,
        phases,
        forwards,
        draft_history,
        heads,
        sampling,
        metrics,
        simulated,
        stops,
        algorithms,
        rules,
        adaptive,
        generated,
    )
    return tuple(mutant for module in modules for mutant in module.MUTANTS)
