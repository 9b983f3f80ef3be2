"""The tables: facts about every operation, in pipeline order. No callables stand here."""

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
from specsim.operations.models import MODEL_TABLE
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
    )
    for operation in group.OPERATIONS
}
"""The public operations."""

RECORDS: dict[str, Operation] = {**TABLE, **MODEL_TABLE}
"""Every record by name, the public ones first: for code that is handed a name and does not care which table has it."""

__all__ = ["MODEL_TABLE", "RECORDS", "TABLE", "Operation"]
