"""The table: every operation, in pipeline order."""

from specsim.operations import (
    acceptance,
    attention,
    compact,
    draft,
    draft_cache,
    extend,
    from_logits,
    grammar,
    probabilities,
    slots,
    tree,
    verify,
)
from specsim.operations.models import forwards, heads
from specsim.operations.record import Operation

TABLE: dict[str, Operation] = {
    operation.name: operation
    for group in (
        draft,
        draft_cache,
        tree,
        verify,
        attention,
        grammar,
        probabilities,
        acceptance,
        from_logits,
        compact,
        slots,
        extend,
        forwards,
        heads,
    )
    for operation in group.OPERATIONS
}

__all__ = ["TABLE", "Operation"]
