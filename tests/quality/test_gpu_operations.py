"""An operation of the GPU is one function that returns its launches: nothing stands between the table and a kernel."""

import ast
import inspect
import textwrap
from pathlib import Path

import pytest

from specsim import gpu
from specsim.gpu.launching import calls
from specsim.gpu.launching.aot import all_kernels
from specsim.gpu.launching.records import FUSED
from specsim.operations import MODEL_TABLE, RECORDS

DESCRIPTIONS = {name: one for name, one in calls.DESCRIPTIONS.items() if name not in FUSED}
ROOT = Path(__file__).parents[2]
GROUPS = sorted([*(ROOT / "gpu").glob("*.py"), *(ROOT / "gpu/models").glob("*.py")])
GENERATORS = sorted([*(ROOT / "specsim/contracts").glob("*.py"), *(ROOT / "gpu/launching").glob("*.py")])
MOST_PARAMETERS = 20
DESCRIBES = {"Launch", "Plan"}


def functions_of(paths):
    """Return every function that is defined in some modules, nested ones too, with its module."""
    return [
        (path, node)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]


def names_called(node):
    """Return the plain names that a piece of a module calls."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return {part.id for part in calls if isinstance(part, ast.Name)}


def names_in(node):
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def is_operation(function):
    return any(isinstance(one, ast.Name) and one.id == "operation" for one in function.decorator_list)


def is_fused(function):
    """Return whether a function describes what stands for several operations."""
    calls = [one.func for one in function.decorator_list if isinstance(one, ast.Call)]
    return any(isinstance(one, ast.Name) and one.id == "fused" for one in calls)


def parameters_of(function):
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def is_forwarding(function):
    """Return whether a function does nothing but call another one with its own parameters."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr) or not isinstance(body[0].value, ast.Call):
        return False
    call = body[0].value
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    names = [one.id for one in given if isinstance(one, ast.Name)]
    is_locals = any(isinstance(one, ast.Call) and names_called(one) == {"locals"} for one in given)
    return is_locals or (len(names) == len(given) and set(names) == set(parameters_of(function)))


def test_each_operation_is_one_function_of_a_module():
    defined = [(path, function) for path, function in functions_of(GROUPS) if is_operation(function)]
    assert sorted(function.name for _, function in defined) == sorted(RECORDS) == sorted(DESCRIPTIONS)
    for path, function in defined:
        describe = DESCRIPTIONS[function.name]
        assert Path(inspect.getsourcefile(describe)).resolve() == path.resolve()
        assert (describe.__qualname__, parameters_of(function)) == (function.name, ["call"])
        assert (path.parent.name == "models") == (function.name in MODEL_TABLE)
        assert vars(gpu)[function.name].__module__ == describe.__module__


def test_what_users_call_follows_from_the_table():
    """The public function has no body of its own, but the documentation of the one that describes its launches."""
    for name, describe in DESCRIPTIONS.items():
        head = vars(gpu)[name]
        assert (head.__doc__, head.__qualname__) == (describe.__doc__, name)
        assert head.__code__.co_filename == f"<head of {name}>"


def test_no_function_forwards_the_arguments_of_another():
    groups = {path for path, function in functions_of(GROUPS) if is_operation(function)}
    found = [f"{path.name}: {function.name}" for path, function in functions_of(groups) if is_forwarding(function)]
    assert not found, f"{found} only pass on what they are given"


def test_what_describes_launches_for_an_operation_serves_another_one_too():
    """A function that one operation calls alone would be given its arguments once more."""
    functions = functions_of([*GROUPS, *(ROOT / "gpu/worker").glob("fused*.py")])
    described = [one for _, one in functions if is_operation(one) or is_fused(one)]
    helpers = [one for _, one in functions if one not in described and names_called(one) & DESCRIBES]
    assert helpers
    for helper in helpers:
        users = {one.name for _, one in functions if one is not helper and helper.name in names_in(one)}
        assert len(users) >= 2, f"{helper.name} belongs into {users}"


@pytest.mark.parametrize(
    ("source", "forwards"),
    [
        ("def f(a, b):\n    return g('f', h, locals())", True),
        ("def f(a, b):\n    '''Do it.'''\n    return g(a, b)", True),
        ("def f(a, b):\n    g(b, first=a)", True),
        ("def f(a, b):\n    return g(a, b, 'kind')", False),
        ("def f(a, b):\n    return g(a)", False),
        ("def f(a, b):\n    c = a\n    return g(c, b)", False),
    ],
)
def test_forwarding_is_seen(source, forwards):
    (function,) = ast.parse(source).body
    assert is_forwarding(function) == forwards


def test_python_is_compiled_from_text_in_one_place():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in GENERATORS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "compile"
    ]
    assert len(found) == 1, found
    carried_out = {
        path.name: sorted(names_called(ast.parse(path.read_text(encoding="utf-8"))) & {"exec", "eval"})
        for path in GENERATORS
    }
    assert {name: calls for name, calls in carried_out.items() if calls} == {
        "axes.py": ["eval"],
        "written.py": ["exec"],
    }


def test_no_kernel_has_more_parameters_than_can_be_read():
    counts = {name: len(kernel.arg_names) for name, kernel in all_kernels().items()}
    longer = {name: count for name, count in counts.items() if count > MOST_PARAMETERS}
    assert not longer, f"{longer}, but should have at most {MOST_PARAMETERS}: hand buffers and sizes over in groups"


def test_every_kernel_waits_for_the_one_before_it_first():
    first = {}
    for name, kernel in all_kernels().items():
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kernel.fn))).body
        statements = definition.body[1:] if ast.get_docstring(definition) else definition.body
        first[name] = ast.unparse(statements[0])
    late = [name for name, statement in first.items() if statement != "follow_previous()"]
    assert not late, f"{late} should begin with follow_previous(): see docs/decisions/early-starts.md"
