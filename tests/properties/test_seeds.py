"""The suite makes its sources of numbers in one place, and a seed has one sequence."""

from pathlib import Path

from specsim import properties
from specsim.properties.seeds import source_of

FOLDER = Path(properties.__file__).parent


def test_a_seed_has_one_sequence():
    first, again = (source_of("7 0").sample(range(1000), 20) for _ in range(2))
    assert first == again != source_of("7 1").sample(range(1000), 20)


def test_no_other_module_makes_a_source():
    modules = [*FOLDER.resolve().rglob("*.py")]
    assert len(modules) > 300
    assert [path.name for path in modules if "Random(" in path.read_text()] == ["seeds.py"]
