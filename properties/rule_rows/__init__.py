"""Every row of the rules with a configuration that pulls its trigger and no other."""

from specsim.properties.rule_rows import common, eagle, others
from specsim.properties.rule_rows.record import Row, require_row

__all__ = ["ROWS", "SECTIONS", "Row", "require_row"]

ROWS: tuple[Row, ...] = (*common.ROWS, *eagle.ROWS, *others.ROWS)

SECTIONS: tuple[str, ...] = tuple(dict.fromkeys(row.section for row in ROWS))
