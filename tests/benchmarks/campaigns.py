"""How fast campaigns are: units of one worker and of two, and what a unit costs beside what it tries.

``python -m tests.benchmarks.campaigns [--seeds A..B] [--rounds N]`` prints a line a run; it needs ray, and two cores.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = ("agreement.build_tree", "agreement.verify_tree_greedy", "agreement.fast_topk", "agreement.verify_chain_greedy")


LOOP = """
import time
end, turns = time.perf_counter() + 4, 0
while time.perf_counter() < end:
    turns += sum(range(1000)) > 0
print(turns)
"""


def ceiling():
    """Return how much more two processes that share nothing do than one: what others leave of the machine."""
    done = []
    for jobs in (1, 2):
        loops = [subprocess.Popen([sys.executable, "-c", LOOP], stdout=subprocess.PIPE, text=True) for _ in range(jobs)]
        done.append(sum(int(loop.communicate()[0]) for loop in loops))
    return done[1] / done[0]


def run(jobs, seeds):
    """Run a campaign in a fresh folder; return units a second once all workers are ready, and the share of overhead."""
    named = [word for name in NAMES for word in ("--name", name)]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--jobs", jobs, "--seeds", seeds, "--of", "property", "--of", "machine", *named]
        command = [sys.executable, "-m", "specsim", "campaign", "specsim.reference", *options, "--folder", folder]
        subprocess.run([*map(str, command), "--json"], check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in (Path(folder) / "units.jsonl").read_text().splitlines()]
    # NOTE: a worker imports the suite before its first unit, and in the end one of two is idle.
    begin, end = len(rows) // 4, len(rows) * 9 // 10
    warm = rows[begin:end]
    work = sum(row["outcome"]["busy_seconds"] for row in warm)
    passed = rows[end - 1]["clock"] - rows[begin - 1]["clock"]
    spent = sum(row["outcome"]["seconds"] for row in warm)
    return len(warm) / passed, spent / work - 1, jobs * passed / work - 1


def main():
    """Alternate between one worker and two, and print what each run came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0..5")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for number in range(given.rounds):
        before = ceiling()
        (one, beside, all_beside), (two, *others) = (run(jobs, given.seeds) for jobs in (1, 2))
        print(f"round {number}: 1 worker {one:.2f} units/s, 2 workers {two:.2f}: {two / one:.2f} times")
        print(f"  two bare loops do {before:.2f} times what one does before it, {ceiling():.2f} times after it")
        print(f"  overhead on the node: {beside:.1%}, of two {others[0]:.1%}")
        print(f"  with what waits for the driver: {all_beside:.1%}, of two {others[1]:.1%}", flush=True)


if __name__ == "__main__":
    main()
