import pytest

from specsim.engines.modules import SourceTree

FILES = {
    "__init__.py": "raise ImportError('the package needs what is not there')\n",
    "kernels.py": (
        "from __future__ import annotations\n"
        "import missing_dependency\n"
        "from typing import TYPE_CHECKING\n"
        "from toy.platform import is_cpu\n"
        "if TYPE_CHECKING:\n"
        "    from missing_too import Tensor\n"
        "_is_cpu = is_cpu()\n"
        "if _is_cpu:\n"
        "    from compiled_kernels import double_on_cpu\n"
        "FACTOR = 2\n"
        "def double(x: Tensor) -> Tensor:\n"
        "    return double_on_cpu(x) if _is_cpu else x * FACTOR\n"
        "def use_missing():\n"
        "    return missing_dependency.value\n"
        "def late():\n"
        "    from .inner.helpers import triple\n"
        "    return triple(1)\n"
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Pair:\n"
        "    first: int\n"
        "class Pool(missing_dependency.Base):\n"
        "    def move(self, x):\n"
        "        return self.offset + double(x)\n"
    ),
    "platform.py": "def is_cpu():\n    return True\n",
    "utils/__init__.py": "from toy.utils.common import *\n",
    "utils/common.py": "def starred():\n    return 'found'\n",
    "inner/helpers.py": "from ..kernels import FACTOR\n\ndef triple(x):\n    return x * (FACTOR + 1)\n",
}


@pytest.fixture
def tree(lay_out):
    return SourceTree("toy", lay_out("toy", FILES), {"toy.platform": {"is_cpu": lambda: False}})


def test_only_what_a_name_stands_for_is_executed(tree):
    assert tree.module("toy.kernels").double(21) == 42


def test_what_a_name_needs_is_really_imported(tree):
    with pytest.raises(ModuleNotFoundError, match="missing_dependency"):
        tree.module("toy.kernels").use_missing()


def test_a_given_name_stays_where_a_statement_binds_others_too(lay_out):
    files = {"both.py": "from toy.two import given, other\n", "two.py": "given, other = 'theirs', 'other'\n"}
    both = SourceTree("toy", lay_out("toy", files), {"toy.both": {"given": "ours"}}).module("toy.both")
    assert (both.other, both.given) == ("other", "ours")


def test_imports_inside_functions_lead_to_the_files_too(tree):
    assert tree.module("toy.kernels").late() == 3


def test_a_method_is_there_without_its_class(tree):
    class Plain:
        offset = 1

    move = tree.module("toy.kernels").method("Pool.move")
    assert move(Plain, 3) == 7
    assert tree.module("toy.kernels").method("Pool.move") is move


def test_dataclasses_find_their_annotations(tree):
    assert tree.module("toy.kernels").Pair(3).first == 3


def test_a_second_look_fails_like_the_first(tree):
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="missing_dependency"):
            tree.module("toy.kernels").use_missing()


def test_star_imports_are_followed(tree):
    assert tree.module("toy.utils").starred() == "found"


def test_given_values_stay_when_the_file_binds_them(lay_out):
    root = lay_out("toy", FILES)
    given = SourceTree("toy", root, {"toy.kernels": {"FACTOR": 10, "_is_cpu": False}})
    assert given.module("toy.kernels").double(1) == 10


@pytest.mark.parametrize("name", ["nowhere", "__path__"])
def test_an_unknown_name_is_an_attribute_error(tree, name):
    with pytest.raises(AttributeError):
        getattr(tree.module("toy.kernels"), name)


def test_an_unknown_module_is_named(tree):
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'toy\.other'"):
        tree.module("toy.other")


def test_nothing_is_entered_among_the_modules(tree):
    import sys

    tree.module("toy.kernels").late()
    assert not [name for name in sys.modules if name.partition(".")[0] == "toy"]
