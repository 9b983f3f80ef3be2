"""The table: every operation, in pipeline order."""

from specsim.operations import compact, draft, draft_cache, extend, heads, model, slots, tree, verify
from specsim.operations.record import Operation

TABLE: dict[str, Operation] = {
    operation.name: operation
    for group in (draft, draft_cache, tree, verify, compact, slots, extend, model, heads)
    for operation in group.OPERATIONS
}

__all__ = ["TABLE", "Operation"]
