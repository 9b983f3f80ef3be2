"""Compare the device times of two checkouts on one GPU: ``python tests/benchmarks/compare_commits.py OLD NEW``.

Each checkout is measured in processes of its own that take turns, so that whatever drifts drifts for both, and the same
inputs are drawn. Nothing is checked for agreement. A row passes where the median of the new one is at most 1.03 times
the old one or 0.15 µs more, whichever is larger; 1.06 times for whole decode iterations.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

RATIO, ITERATION_RATIO, SLACK_US = 1.03, 1.06, 0.15
ITERATION = "decode iteration"

MEASURE = """
import fnmatch, json, pathlib, sys
import specsim, torch
where = pathlib.Path(specsim.__file__ or ".").resolve()
if not where.is_relative_to(pathlib.Path.cwd() / "specsim"):
    sys.exit(f"specsim comes from {where}")
try:
    from specsim.gpu.bench import operations as benches
except ImportError:
    from specsim.gpu import bench as benches
pattern, iterations = sys.argv[1], sys.argv[2] == "1"
for case in benches.operation_cases():
    name = f"{case.operation}, {case.shape}"
    if fnmatch.fnmatch(name, pattern):
        torch.manual_seed(0)
        latency = benches.measure(case)
        print(json.dumps([name, latency.median_us]), flush=True)
torch.manual_seed(0)
if iterations:
    for latency in benches.measure_iterations():
        name = f"{latency.operation}, {latency.shape}"
        if fnmatch.fnmatch(name, pattern):
            print(json.dumps([name, latency.median_us]), flush=True)
"""
"""What a process measures: lines of a row's name and its microseconds."""


@dataclass(frozen=True)
class Row:
    """Medians of one row over the runs, and whether the new one passes."""

    name: str
    old_us: float
    new_us: float
    most_us: float

    @property
    def passes(self) -> bool:
        """Whether the new checkout is fast enough."""
        return self.new_us <= self.most_us


def compare(old: list[dict[str, float]], new: list[dict[str, float]]) -> list[Row]:
    """Return the rows that both checkouts have, in order."""
    names = [name for name in old[0] if all(name in run for run in (*old, *new))]
    rows = []
    for name in names:
        before, after = (median(run[name] for run in runs) for runs in (old, new))
        ratio = ITERATION_RATIO if name.startswith(ITERATION) else RATIO
        most = before * ratio if name.startswith(ITERATION) else max(before * ratio, before + SLACK_US)
        rows.append(Row(name, before, after, most))
    return rows


def measure(checkout: Path, pattern: str, iterations: bool) -> dict[str, float]:
    """Measure one checkout in a process of its own.

    Raises
    ------
    SystemExit
        The process fails: its last words are shown.
    """
    paths = os.pathsep.join([str(checkout), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-c", MEASURE, pattern, str(int(iterations))]
    finished = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(f"{checkout}: the measurement failed\n{finished.stderr[-3000:]}")
    return dict(json.loads(line) for line in finished.stdout.splitlines())


def main(given: list[str]) -> int:
    """Measure in turns and print medians and ratios; return 1 where a row does not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", default="*", help="pattern of the rows to measure, like 'build_tree*'")
    parser.add_argument("--no-iterations", action="store_true", help="leave whole decode iterations out")
    parser.add_argument("--json", type=Path, help="write all figures to this file, after every run")
    options = parser.parse_args(given)
    runs: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    for number in range(options.runs):
        for side in ("old", "new") if number % 2 == 0 else ("new", "old"):
            checkout = vars(options)[side].resolve()
            runs[side].append(measure(checkout, options.rows, not options.no_iterations))
            print(f"run {number + 1}, {side}: {len(runs[side][-1])} rows", file=sys.stderr, flush=True)
        rows = compare(runs["old"], runs["new"])
        if options.json:
            document = {"runs": runs, "rows": [{**asdict(row), "passes": row.passes} for row in rows]}
            options.json.write_text(json.dumps(document, indent=1))
    print(f"{'row':100s} {'old µs':>9s} {'new µs':>9s} {'ratio':>6s} {'at most':>9s}")
    for row in rows:
        ratio = row.new_us / row.old_us
        verdict = "" if row.passes else "  SLOWER"
        print(f"{row.name:100s} {row.old_us:9.2f} {row.new_us:9.2f} {ratio:6.3f} {row.most_us:9.2f}{verdict}")
    print(f"{sum(row.passes for row in rows)} of {len(rows)} rows within bounds, medians of {options.runs} runs")
    return int(not all(row.passes for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
