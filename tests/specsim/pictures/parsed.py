"""A picture as the tests read it: which boxes stand where, and what is written in them."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

FIGURES = Path(__file__).parents[3] / "docs" / "figures"
WRITES = "SPECSIM_WRITE_FIGURES"
"""Set it to draw the figures of the pages again, where pictures have changed on purpose."""

NAMESPACE = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Box:
    """A group of a picture, in pixels of the whole: its marks, its lines of text, and its first rectangle."""

    marks: dict
    lines: tuple
    left: float = 0.0
    top: float = 0.0
    width: float = 0.0
    height: float = 0.0

    def overlaps(self, other):
        """Return whether two boxes share an area."""
        is_beside = self.left + self.width <= other.left or other.left + other.width <= self.left
        return not (is_beside or self.top + self.height <= other.top or other.top + other.height <= self.top)


def root_of(svg):
    """Return the root of a picture, which is well-formed."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{NAMESPACE}svg"
    return root


def words_of(svg):
    """Return the title and the description of a picture."""
    root = root_of(svg)
    return tuple(root.find(f"{NAMESPACE}{tag}").text for tag in ("title", "desc"))


def boxes_of(svg, mark):
    """Return the groups that have an attribute ``data-mark``, in their order."""
    found = []

    def walk(element, left, top):
        moved = re.fullmatch(r"translate\(([-\d.]+),([-\d.]+)\)", element.get("transform", ""))
        if moved:
            left, top = left + float(moved[1]), top + float(moved[2])
        if element.get(f"data-{mark}") is not None:
            marks = {name[5:]: value for name, value in element.attrib.items() if name.startswith("data-")}
            lines = tuple(one.text for one in element.iter(f"{NAMESPACE}text"))
            first = element.find(f"{NAMESPACE}rect")
            place = ()
            if first is not None:
                place = (left, top, float(first.get("width")), float(first.get("height")))
            found.append(Box(marks, lines, *place))
        for child in element:
            walk(child, left, top)

    walk(root_of(svg), 0.0, 0.0)
    return found


def texts_of(svg):
    """Return everything that is written in a picture, in its order."""
    return [one.text for one in root_of(svg).iter(f"{NAMESPACE}text")]


def tags_of(svg):
    """Return the names of all elements."""
    return {one.tag.removeprefix(NAMESPACE) for one in root_of(svg).iter()}


def ids_of(svg):
    """Return all ids."""
    return [one.get("id") for one in root_of(svg).iter() if one.get("id") is not None]


def assert_figure(name, svg):
    """Check that a figure of the pages is what is drawn, or write it if asked to."""
    path = FIGURES / f"{name}.svg"
    if os.environ.get(WRITES):
        path.write_text(svg, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == svg, f"{path.name} is drawn in another way: {WRITES}=1 writes it again"
