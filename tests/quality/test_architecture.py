import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPT = HERE / "import_structure.py"


@pytest.fixture(scope="module")
def structure():
    sys.path.insert(0, str(HERE))
    try:
        import import_structure
    finally:
        sys.path.remove(str(HERE))
    return import_structure


def test_no_arrow_leads_upwards(structure):
    assert structure.upward(structure.imports()) == []


def test_every_room_stands_on_a_floor(structure):
    rooms = {room for floor in structure.floors() for room in floor}
    found = {path.stem for path in (structure.ROOT / "specsim").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert found - {"__init__", "__pycache__"} == rooms


def test_an_import_is_an_arrow(structure):
    arrows = structure.imports()
    assert "simulation" in arrows["reference"]
    assert {"specsim", "reference"} - {path.parts[len(structure.ROOT.parts)] for path in structure.sources()} == set()


def test_an_upward_arrow_is_named(structure):
    assert structure.upward({**structure.imports(), "counts": {"gpu"}}) == [("counts", "gpu")]


def test_the_picture_on_the_page_is_that_of_the_sources(structure):
    assert structure.PAGE.read_text(encoding="utf-8") == structure.page(), f"run: python {SCRIPT.name} --write"


def test_paths_on_the_page_exist(structure):
    text = structure.PAGE.read_text(encoding="utf-8")
    named = {
        word.partition("::")[0] for word in text.split("`")[1::2] if "/" in word and ".py" in word and " " not in word
    }
    assert named
    missing = sorted(path for path in named if not path.startswith("worker/") and not (structure.ROOT / path).is_file())
    assert missing == []


def test_the_script_prints_the_picture(structure):
    printed = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == structure.diagram()
