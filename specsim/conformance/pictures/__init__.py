"""Pictures of cases, in SVG."""

from specsim.conformance.pictures.case import draw_case

__all__ = ["draw_case"]
