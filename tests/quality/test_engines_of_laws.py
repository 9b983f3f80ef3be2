"""Engines that laws build around an implementation call its parts: none is built with ours alone by oversight."""

import ast
from pathlib import Path

import specsim.properties

LAWS = Path(specsim.properties.__file__).parent / "laws"
BELIEVED = {
    ("dflash_engine.py", "alone"): "the reference's loop, which counts what a request accepts alone",
    ("sampled_law.py", "return"): "a law of a worker that a test plants, of no module",
}
"""Engines of the reference, by their file and by what they are assigned to, and what they are for."""


def engines():
    """Yield every call of ``Engine`` in the laws: its file, what it is assigned to, and the names of its arguments."""
    for path in sorted(LAWS.rglob("*.py")):
        for statement in ast.walk(ast.parse(path.read_text())):
            if not isinstance(statement, ast.Assign | ast.Return):
                continue
            for call in ast.walk(statement):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Engine":
                    target = "return" if isinstance(statement, ast.Return) else ast.unparse(statement.targets[0])
                    yield path.name, target, {keyword.arg for keyword in call.keywords}


def test_every_engine_around_an_implementation_gets_its_operations():
    found = list(engines())
    assert len(found) >= 12
    assert [one[:2] for one in found if "operations" not in one[2] and one[:2] not in BELIEVED] == []


def test_what_is_believed_is_there():
    assert BELIEVED.keys() <= {one[:2] for one in engines()}
