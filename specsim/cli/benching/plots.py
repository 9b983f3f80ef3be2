"""Figures of how the cost of operations grows, PNG and SVG; this module alone imports matplotlib."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specsim.installation import explain_missing, find_missing

if find_missing("plots"):
    raise ImportError(explain_missing("plots", __name__))

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

COLUMNS, WIDTH, HEIGHT, MARGIN = 4, 3.6, 2.7, 0.7
"""Panels side by side, inches of each, and inches above and beside them all."""

LINES = {
    "median_us": ("specsim", "C0", "-"),
    "floor_us": ("floor", "0.4", ":"),
    "eager_us": ("specsim, single launches", "C0", "--"),
    "torch_us": ("torch", "C1", "-"),
    "peer_us": ("peer", "C3", "-"),
}
"""The label, the colour and the style of each time of a row."""

UNITS = {"batch": "requests", "nodes": "nodes", "topk": "topk", "vocab": "vocabulary", "length": "tokens before"}
FORMATS = ("png", "svg")


def draw(document: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw a figure of each axis of a document of ``specsim bench --grow``, and return its files.

    Parameters
    ----------
    document : mapping
        Its ``growth`` says which of its ``rows`` are one operation at several sizes.
    folder : Path
        Where the files go: ``batch.png``, ``batch.svg``, …
    """
    rows = {(row["operation"], row["shape"]): row for row in document["rows"]}
    files = []
    for axis in dict.fromkeys(growth["axis"] for growth in document["growth"]):
        growths = [growth for growth in document["growth"] if growth["axis"] == axis]
        figure = figure_of(document["device"], axis, growths, rows)
        for suffix in FORMATS:
            files.append(folder / f"{axis}.{suffix}")
            figure.savefig(files[-1], dpi=100)
    return files


def figure_of(
    device: str, axis: str, growths: Sequence[Mapping[str, Any]], rows: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Figure:
    """Return a figure with a panel for each row that grows along an axis."""
    num_columns = min(COLUMNS, len(growths))
    num_lines = -(-len(growths) // num_columns)
    width, height = WIDTH * num_columns, HEIGHT * num_lines + MARGIN
    figure = Figure(figsize=(width, height))
    figure.suptitle(f"{device}: microseconds by {UNITS[axis]}", y=1 - MARGIN / 4 / height, va="top", fontsize=10)
    edges = {"left": MARGIN / width, "right": 1 - 0.1 / width, "top": 1 - MARGIN / height, "bottom": 0.3 / height}
    # NOTE: a layout that matplotlib fits to 80 panels takes half a minute.
    figure.subplots_adjust(**edges, wspace=0.2, hspace=0.35)
    panels = figure.subplots(num_lines, num_columns, squeeze=False).ravel().tolist()
    for panel, growth in zip(panels, growths, strict=False):
        _draw_panel(panel, growth, rows)
    for panel in panels[len(growths) :]:
        panel.set_axis_off()
    return figure


def _draw_panel(panel: Axes, growth: Mapping[str, Any], rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    timed = [
        (size, rows[growth["operation"], shape])
        for size, shape in zip(growth["sizes"], growth["shapes"], strict=True)
        if (growth["operation"], shape) in rows
    ]
    panel.set_title("\n".join(filter(None, (growth["operation"], growth["kind"]))), fontsize=7)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks(growth["sizes"], [f"{size:,}" for size in growth["sizes"]], fontsize=6)
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.tick_params(axis="y", labelsize=6)
    panel.grid(alpha=0.3)
    for key, (label, colour, style) in LINES.items():
        points = [(size, row[key]) for size, row in timed if row[key] is not None]
        if points:
            panel.plot(*zip(*points, strict=True), style, color=colour, marker=".", markersize=3, label=label)
    if timed:
        low, high = ([row[key] for _, row in timed] for key in ("low_us", "high_us"))
        panel.fill_between([size for size, _ in timed], low, high, color="C0", alpha=0.2)
        panel.legend(fontsize=5)


def draw_speedups(
    device: str, batches: Sequence[int], lines: Mapping[str, Sequence[float | None]], folder: Path
) -> list[Path]:
    """Draw speed-up against batch, a line a configuration, and return the files: ``speedup.png``, ``speedup.svg``."""
    figure = Figure(figsize=(2 * WIDTH, 1.5 * HEIGHT), layout="constrained")
    axes = figure.subplots()
    for name, line in lines.items():
        known = [(batch, one) for batch, one in zip(batches, line, strict=True) if one is not None]
        axes.plot([batch for batch, _ in known], [one for _, one in known], marker="o", label=name)
    axes.axhline(1, color="0.4", linestyle=":", label="no drafts")
    axes.set_xscale("log", base=2)
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.set_xlabel("requests")
    axes.set_ylabel("speed-up")
    axes.set_title(device)
    axes.legend()
    files = [folder / f"speedup.{suffix}" for suffix in FORMATS]
    for file in files:
        figure.savefig(file, dpi=100)
    return files
