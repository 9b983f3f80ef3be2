"""An engine of a law is built where a scenario is played, and gets what the implementation has for it."""

import ast
import re
from pathlib import Path

import specsim.properties
from specsim.properties.shelves import SHELVES

PROPERTIES = Path(specsim.properties.__file__).parent


def engines():
    """Yield every call of ``Engine``: its file, and the names of its arguments."""
    for path in sorted(PROPERTIES.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Engine":
                yield path, {keyword.arg for keyword in call.keywords}


def test_engines_of_laws_are_built_in_one_place():
    (found,) = engines()
    assert found[0] == PROPERTIES / "runs" / "play.py"
    assert found[1] >= {"operations", "make_scheduler", "adaptive", "schedule", "observer"}


def test_no_class_beside_scenario_and_play_is_a_run():
    """A law takes a scenario; what it runs is a play. Plays of memory have no engine."""
    names = {
        node.name
        for folder in SHELVES
        for path in sorted((PROPERTIES / folder).rglob("*.py"))
        if not path.name.startswith("strategy")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and re.fullmatch(r"\w+Run|\w*Play", node.name)
    }
    assert names == {"Play", "AllocatorPlay", "CachePlay", "ExportsPlay", "MemoryPlay"}
