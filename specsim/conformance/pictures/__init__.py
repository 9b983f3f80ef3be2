"""Pictures of cases and of calls, in SVG."""

from specsim.conformance.pictures.case import draw_call, draw_case

__all__ = ["draw_call", "draw_case"]
