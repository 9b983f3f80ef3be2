"""Every host function has a door: commands, engines, workers or operations run it, or the catalogue says not."""

import ast
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from specsim.conformance.catalogue import CATALOGUE, Kind
from specsim.phases import DraftExtendInput, DraftInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.rejection import Reason

ROOT = Path(__file__).parents[2]
FOLDERS = {"specsim": "specsim", "reference": "specsim.reference", "gpu": "specsim.gpu"}
WORKERS = ("specsim.simulation.", "specsim.reference.worker.", "specsim.gpu.worker.")
DOORS = ("specsim.cli.", *WORKERS, "specsim.reference.", "specsim.gpu.")
NO_DOORS = "specsim.conformance."
"""Where host functions are listed and handed to the laws, which is not running them."""

BACKENDS = {"operations", "backend"}
"""What workers call a loaded backend."""

OPEN_TO_USERS = {("specsim.algorithms.registry", "register"): "called by whoever brings a plug-in"}
"""Functions that users call themselves."""

HOST_FUNCTIONS = {name: entry for name, entry in CATALOGUE.items() if entry.kind is Kind.HOST_FUNCTION}
HANDED = (DraftInput, VerifyInput, VerifyOutput, DraftExtendInput, EagleDraftExtendInput)
UNREAD_FIELDS = {
    "DraftInput.future_indices": "engines that overlap relay what a draft starts from; filter and merge follow it",
    "EagleDraftExtendInput.num_tokens_per_req": "ranks multiply their counts by it",
    "VerifyOutput.target_predict": "lockstep runs compare it",
}
"""Fields that no worker reads, and what they are there for."""


@cache
def modules():
    """Return the parsed sources of the layers by module name."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *(part for part in parts if part != "__init__")))
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def imports_of(module):
    """Return where each name that a module imports comes from: (module, name), or (module, "") of a module."""
    found = {}
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                is_module = f"{node.module}.{alias.name}" in modules()
                origin = (f"{node.module}.{alias.name}", "") if is_module else (node.module, alias.name)
                found[alias.asname or alias.name] = origin
    return found


def resolve(module, name):
    """Return where a name of a module is defined, through what packages import."""
    seen = set()
    while module in modules() and (module, name) not in seen:
        seen.add((module, name))
        origin = imports_of(module).get(name)
        if origin is None:
            break
        module, name = origin
    return module, name


def used_by(module, node):
    """Return the definitions that a piece of a module names, by itself or by asking a backend for it."""
    found = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name):
                found.add(resolve(module, name))
            case ast.Attribute(value=ast.Name(id=asked) | ast.Attribute(attr=asked), attr=name) if (
                name in HOST_FUNCTIONS and asked.strip("_") in BACKENDS
            ):
                found.add((HOST_FUNCTIONS[name].function.__module__, name))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                origin = imports_of(module).get(name)
                if origin is not None and origin[1] == "":
                    found.add(resolve(origin[0], attribute))
            case ast.Call(func=ast.Attribute(attr="host" | "call"), args=[ast.Constant(value=str(name)), *_]):
                if name in HOST_FUNCTIONS:
                    function = HOST_FUNCTIONS[name].function
                    found.add((function.__module__, name))
    return found


def reached():
    """Return every definition that a command, an engine, a worker or an operation comes to."""
    parts = {
        (module, part.name): (module, part)
        for module, tree in modules().items()
        for part in tree.body
        if isinstance(part, ast.FunctionDef | ast.ClassDef)
    }
    values = {
        (module, target.id): (module, part)
        for module, tree in modules().items()
        for part in tree.body
        if isinstance(part, ast.Assign | ast.AnnAssign)
        for target in (part.targets if isinstance(part, ast.Assign) else [part.target])
        if isinstance(target, ast.Name)
    }
    definitions = {**values, **parts}
    waiting = {place for place in parts if place[0].startswith(DOORS)} | OPEN_TO_USERS.keys()
    found = set()
    while waiting:
        place = waiting.pop()
        if place in found or place not in definitions or place[0].startswith(NO_DOORS):
            continue
        found.add(place)
        waiting |= used_by(*definitions[place])
    return found


def test_every_host_function_is_run_or_said_to_be_there_for_engines_only():
    places = reached()
    run = {name for name, entry in HOST_FUNCTIONS.items() if (entry.function.__module__, name) in places}
    said = {name for name, entry in HOST_FUNCTIONS.items() if entry.is_conformance_only}
    unsaid, wrong = sorted(HOST_FUNCTIONS.keys() - run - said), sorted(run & said)
    assert not unsaid, f"nothing runs {unsaid}: connect them, or mark them conformance_only in the catalogue"
    assert not wrong, f"{wrong} are run: take the mark conformance_only in the catalogue away"


@pytest.mark.parametrize(
    ("name", "is_reached"),
    [
        ("count_batch", True),
        ("filter_batch", True),
        ("find_algorithm", True),
        ("is_verify_input", False),
    ],
)
def test_doors_are_followed(name, is_reached):
    assert ((HOST_FUNCTIONS[name].function.__module__, name) in reached()) == is_reached


def test_every_field_of_a_phase_is_read_by_an_engine_or_a_worker():
    read = {
        part.attr
        for module, tree in modules().items()
        if module.startswith(WORKERS)
        for part in ast.walk(tree)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load)
    }
    unread = {f"{one.__name__}.{field.name}" for one in HANDED for field in fields(one) if field.name not in read}
    assert unread == UNREAD_FIELDS.keys()


def test_every_reason_of_a_rejection_is_given():
    text = "\n".join(ast.unparse(tree) for tree in modules().values())
    assert not [reason.name for reason in Reason if f"Reason.{reason.name}" not in text]
