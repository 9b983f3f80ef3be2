"""Every row of the rules with a configuration that pulls its trigger and no other."""

from specsim.discovery import modules_of
from specsim.properties.host.rules.rows.record import Row, require_row

__all__ = ["ROWS", "SECTIONS", "Row", "require_row"]

ROWS: tuple[Row, ...] = tuple(row for module in modules_of(__name__).values() for row in vars(module).get("ROWS", ()))

SECTIONS: tuple[str, ...] = tuple(dict.fromkeys(row.section for row in ROWS))
