import json
import runpy
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("compare_commits.py")
NAMES = runpy.run_path(str(SCRIPT), run_name="compare_commits")
compare, main = NAMES["compare"], NAMES["main"]
BENCH = """
from types import SimpleNamespace as N
def operation_cases(): return [N(operation="build_tree", shape="1 request"), N(operation="move", shape="4 slots")]
def measure(case): return N(median_us={old} if case.operation == "build_tree" else 1.0)
def measure_iterations(): return [N(operation="decode iteration", shape="batch 1", median_us={iteration})]
"""


def checkout(folder, where, old, iteration):
    """Write a checkout whose bench says what it is given, and needs no device and no torch."""
    module = folder / "specsim" / "gpu" / where
    module.parent.mkdir(parents=True)
    for package in (*module.relative_to(folder).parents[:-1],):
        (folder / package / "__init__.py").touch()
    module.write_text(BENCH.format(old=old, iteration=iteration))
    (folder / "torch.py").write_text("def manual_seed(seed): pass\n")
    return folder


def test_bounds_are_a_ratio_and_a_slack():
    old = [{"small": 2.0, "large": 100.0, "decode iteration, a": 100.0}] * 3
    new = [{"small": 2.14, "large": 103.1, "decode iteration, a": 106.0}] * 3
    rows = compare(old, new)
    assert [(row.name, row.passes) for row in rows] == [
        ("small", True),
        ("large", False),
        ("decode iteration, a", True),
    ]


def test_medians_of_the_runs_are_compared():
    rows = compare([{"a": 1.0}, {"a": 9.0}, {"a": 2.0}], [{"a": 3.0}, {"a": 2.0}, {"a": 1.0}])
    assert [(row.old_us, row.new_us) for row in rows] == [(2.0, 2.0)]


def test_both_layouts_of_the_bench_are_measured(tmp_path, capsys):
    old = checkout(tmp_path / "old", "bench.py", old=5.0, iteration=100.0)
    new = checkout(tmp_path / "new", "bench/operations.py", old=6.0, iteration=105.0)
    status = main([str(old), str(new), "--runs", "2", "--json", str(tmp_path / "all.json")])
    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert lines[1].split() == ["build_tree,", "1", "request", "5.00", "6.00", "1.200", "5.15", "SLOWER"]
    assert lines[-1] == "2 of 3 rows within bounds, medians of 2 runs"
    assert len(json.loads((tmp_path / "all.json").read_text())["runs"]["new"]) == 2


def test_rows_are_chosen_by_pattern(tmp_path, capsys):
    old = checkout(tmp_path / "old", "bench.py", old=5.0, iteration=100.0)
    status = main([str(old), str(old), "--runs", "1", "--rows", "move*", "--no-iterations"])
    assert (status, capsys.readouterr().out.splitlines()[-1]) == (0, "1 of 1 rows within bounds, medians of 1 runs")


def test_a_failure_shows_its_last_words(tmp_path):
    finished = subprocess.run([sys.executable, SCRIPT, tmp_path, tmp_path], capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    assert f"{tmp_path}: the measurement failed\nspecsim comes from" in finished.stderr
