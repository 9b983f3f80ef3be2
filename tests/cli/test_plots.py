import struct
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib", reason="figures need the extra plots")

from specsim.cli.benching.plots import draw, figure_of

LABELS = ["specsim", "floor", "specsim, single launches", "torch", "peer"]


def row(operation, shape, us, **others):
    times = {"median_us": us, "low_us": us / 2, "high_us": us * 2, "floor_us": 1.7}
    return {
        "operation": operation,
        "shape": shape,
        **times,
        "eager_us": 9.0,
        "torch_us": None,
        "peer_us": None,
        **others,
    }


def growth(axis, operation, sizes, kind=""):
    shapes = [f"{size} of {axis}" for size in sizes]
    return {"axis": axis, "operation": operation, "kind": kind, "sizes": sizes, "shapes": shapes}


DOCUMENT = {
    "device": "a GPU",
    "rows": [
        row("build_tree", "1 of batch", 2.0, peer_us=8.0),
        row("build_tree", "64 of batch", 4.0, peer_us=16.0),
        row("top_k_renorm", "1 of batch", 5.0, torch_us=7.0),
        row("top_k_renorm", "32000 of vocab", 50.0),
    ],
    "growth": [
        growth("batch", "build_tree", [1, 64]),
        growth("batch", "top_k_renorm", [1, 64], "k 50"),
        growth("vocab", "top_k_renorm", [32_000], "k 50"),
    ],
}


def panels(axis):
    rows = {(one["operation"], one["shape"]): one for one in DOCUMENT["rows"]}
    growths = [one for one in DOCUMENT["growth"] if one["axis"] == axis]
    return [panel for panel in figure_of("a GPU", axis, growths, rows).axes if panel.axison]


def lines(panel):
    return {line.get_label(): line.get_xydata().tolist() for line in panel.get_lines()}


def test_each_axis_has_a_figure_in_two_formats(tmp_path):
    files = draw(DOCUMENT, tmp_path)
    assert [path.name for path in files] == ["batch.png", "batch.svg", "vocab.png", "vocab.svg"]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    for path in files:
        if path.suffix == ".svg":
            assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        else:
            header = path.read_bytes()[:24]
            width, height = struct.unpack(">II", header[16:])
            assert header[:8] == b"\x89PNG\r\n\x1a\n"
            assert (width > 300, height > 200) == (True, True)


def test_a_panel_has_the_times_of_its_row_by_size():
    first, second = panels("batch")
    assert (first.get_title(), second.get_title()) == ("build_tree", "top_k_renorm\nk 50")
    assert lines(first) == {
        "specsim": [[1, 2.0], [64, 4.0]],
        "floor": [[1, 1.7], [64, 1.7]],
        "specsim, single launches": [[1, 9.0], [64, 9.0]],
        "peer": [[1, 8.0], [64, 16.0]],
    }
    assert (first.get_xscale(), first.get_yscale()) == ("log", "log")
    assert [tick.get_text() for tick in first.get_xticklabels()] == ["1", "64"]


def test_what_could_not_be_timed_has_no_point():
    _, second = panels("batch")
    assert lines(second)["specsim"] == [[1, 5.0]]
    assert lines(second)["torch"] == [[1, 7.0]]
    (lost,) = figure_of("a GPU", "nodes", [growth("nodes", "build_tree", [4, 8])], {}).axes
    assert lines(lost) == {}


def test_the_range_of_replays_is_shaded():
    first, _ = panels("batch")
    (band,) = first.collections
    assert {tuple(point) for point in band.get_paths()[0].vertices.tolist()} >= {
        (1, 1.0),
        (1, 4.0),
        (64, 2.0),
        (64, 8.0),
    }
