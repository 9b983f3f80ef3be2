"""How often short soaks of the reference meet what is required of them: ``python -m tests.properties.soak_reach``."""

import argparse
import time
from dataclasses import dataclass

from specsim.properties.soak.run import Soaked
from specsim.properties.soak.tags import ENDS, OWN, REQUIRED
from specsim.properties.soak.units import ANY, SoakLimits, run_unit
from specsim.properties.soak.verdict import complaints, why_inconclusive

REFERENCE = "specsim.reference"


@dataclass(frozen=True)
class Run:
    """Hits of one run by the name of the condition, and why it is inconclusive."""

    seed: int
    hits: dict[str, int]
    because: list[str]
    num_machines: int
    num_steps: int


def reach_of_run(seed: int, num_steps: int) -> Run:
    """Run machines in this process until they have taken so many steps."""
    soaked, number = Soaked(seed), 0
    while soaked.num_steps < num_steps:
        soaked.add(number, run_unit(REFERENCE, ANY, (f"{seed} {number}",), SoakLimits()))
        number += 1
    hits = {tag.value: soaked.reach[tag] for tag in (*REQUIRED, *OWN)}
    hits |= {f"a row used again after {end}": soaked.reused[end] for end in ENDS}
    wrong = [*complaints(soaked), *why_inconclusive(soaked, is_part=False)]
    return Run(seed, hits, wrong, soaked.num_machines, soaked.num_steps)


def least_of_runs(runs: list[Run]) -> list[tuple[int, str]]:
    """Return each required condition with its least hits in a run, the rarest first."""
    return sorted((min(run.hits[name] for run in runs), name) for name in runs[0].hits)


def main() -> None:
    """Print a line a run, then a line a condition."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seeds", type=int, default=20)
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--steps", type=int, default=3_000)
    options = asked.parse_args()
    runs = []
    for seed in range(options.first, options.first + options.seeds):
        started = time.process_time()
        runs.append(reach_of_run(seed, options.steps))
        seconds = time.process_time() - started
        said = "; ".join(runs[-1].because) or "conforms"
        print(
            f"seed {seed}: {runs[-1].num_machines} machines, {runs[-1].num_steps} steps, {seconds:.1f} s, {said}",
            flush=True,
        )
    for least, name in least_of_runs(runs):
        print(f"{least:6,}  {name}")


if __name__ == "__main__":
    main()
