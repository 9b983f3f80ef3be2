"""Structural rules of what follows the output."""

from specsim.rejection import Reason
from specsim.validation.common import PATHS
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.DUPLICATE_ROW, "a row has one owner")
def _rows_have_one_owner(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No two requests have one row of `token_counts`, unless it is row 0."""
    del axes
    rows = [row for row in arguments["req_pool_indices"].tolist() if row]
    if len(set(rows)) == len(rows):
        return None
    return Fault("req_pool_indices", min(row for row in rows if rows.count(row) > 1), "distinct rows, or row 0")


RULES = {"commit_output_tokens": (*PATHS, _rows_have_one_owner)}
