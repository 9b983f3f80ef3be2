"""The page on fuzzing quotes its examples, and its harness runs: under a stand-in, and under atheris where it is."""

import importlib.util
import re
import runpy
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "docs" / "examples"
HARNESS = EXAMPLES / "fuzz_my_kernels.py"
FAULT = ("num_accepted_tokens[:, None] - 1", "num_accepted_tokens[:, None] % accept_tokens.shape[1]")
HAS_ATHERIS = importlib.util.find_spec("atheris") is not None


class Driver(ModuleType):
    """Stands for atheris: random bytes, without feedback."""

    def __init__(self):
        super().__init__("atheris")
        self.returned = []

    @contextmanager
    def instrument_imports(self, include):
        yield

    def Setup(self, arguments, one_input):  # noqa: N802
        self.num_runs = next(int(one.partition("=")[2]) for one in arguments if one.startswith("-runs="))
        self.one_input = one_input

    def Fuzz(self):  # noqa: N802
        random = Random(0)
        for _ in range(self.num_runs):
            self.returned.append(self.one_input(random.randbytes(random.randrange(1500))))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the kernels, in which the harness runs."""
    (tmp_path / "my_kernels.py").write_text((EXAMPLES / "my_kernels.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_kernels", raising=False)
    yield tmp_path
    sys.modules.pop("my_kernels", None)


def drive(num_runs, monkeypatch, target="fill_bonus_tokens"):
    """Run the harness under the stand-in."""
    driver = Driver()
    monkeypatch.setitem(sys.modules, "atheris", driver)
    monkeypatch.setenv("TARGET", target)
    monkeypatch.setattr(sys, "argv", [HARNESS.name, f"-runs={num_runs}"])
    runpy.run_path(str(HARNESS))
    return driver.returned


@pytest.mark.parametrize(
    ("target", "num_runs"),
    [
        ("fill_bonus_tokens", 300),
        pytest.param("fill_accept_out_cache_loc", 500, marks=pytest.mark.slow),
        pytest.param("compact.bonus_is_the_last_output_token", 400, marks=pytest.mark.slow),
    ],
)
def test_the_harness_runs_without_atheris(target, num_runs, folder, monkeypatch):
    returned = drive(num_runs, monkeypatch, target)
    assert len(returned) == num_runs
    assert returned.count(0) > 0.95 * num_runs
    assert not (folder / "specsim-cases").exists()


def test_the_harness_finds_a_fault_and_keeps_its_case(folder, monkeypatch):
    source = (folder / "my_kernels.py").read_text()
    (folder / "my_kernels.py").write_text(source.replace(*FAULT))
    with pytest.raises(AssertionError, match="fill_bonus_tokens: bonus_tokens") as caught:
        drive(100, monkeypatch)
    (path,) = (folder / "specsim-cases").iterdir()
    assert caught.value.__notes__[-1] == f"smallest case: {path.relative_to(folder)}"


@pytest.mark.slow
@pytest.mark.skipif(not HAS_ATHERIS, reason="atheris is not installed (pip install atheris)")
def test_the_harness_runs_under_atheris(folder):
    (folder / HARNESS.name).write_text(HARNESS.read_text())
    command = [sys.executable, HARNESS.name, "-runs=500", "-len_control=0", "-seed=1"]
    got = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert got.returncode == 0, got.stderr
    assert "Done 500 runs" in got.stderr
    assert not (folder / "specsim-cases").exists()


def test_the_page_quotes_its_examples():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "fuzzing.md").read_text(), flags=re.DOTALL)
    machine = (EXAMPLES / "my_worker_machine.py").read_text().partition("\n\n")[2]
    assert blocks[0] == HARNESS.read_text()
    assert machine in blocks
    assert len(blocks[0].splitlines()) <= 15


def test_the_comparison_of_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "fuzzing.md").read_text(), flags=re.DOTALL)
    (block,) = [block for block in blocks if "harness.compare" in block]
    exec(block.replace("specsim.gpu", "specsim.reference"), {})
