"""Pictures in SVG, drawn from plain values: trees, rows of slots, tables, and the timeline of a run.

Each function returns one document that stands alone: no script, no reference, no id but those that a prefix names.
"""

from specsim.pictures.frame import Panel, draw_panels
from specsim.pictures.slots import Cell, Move, SlotRow, draw_slots, slots_panel
from specsim.pictures.states import State
from specsim.pictures.table import draw_table, table_panel
from specsim.pictures.timeline import Activity, Column, Moment, draw_timeline
from specsim.pictures.tree import Node, draw_tree, tree_panel

__all__ = [
    "Activity",
    "Cell",
    "Column",
    "Moment",
    "Move",
    "Node",
    "Panel",
    "SlotRow",
    "State",
    "draw_panels",
    "draw_slots",
    "draw_table",
    "draw_timeline",
    "draw_tree",
    "slots_panel",
    "table_panel",
    "tree_panel",
]
