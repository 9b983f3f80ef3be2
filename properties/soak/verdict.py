"""What is wrong with a soak: machines that fail, conditions that too few of them reached, and what never ran."""

from collections.abc import Iterator

from specsim.algorithms import DRAFTERS
from specsim.conformance.backend import SCHEDULER
from specsim.properties.soak.drafters import WORKER_NAMES
from specsim.properties.soak.run import Soaked
from specsim.properties.soak.tags import (
    ENDS,
    FEWEST_JUDGED,
    OF_SCHEDULERS,
    OWN,
    PER_STEPS,
    REQUIRED,
    SOMETIMES,
    least_hits,
    more_steps,
)

FEWEST_MEASURED = 20_000
"""Steps from which on memory is judged: what is loaded and kept once is there after a fifth of them."""

MOST_GROWTH = 1.08


def complaints(soaked: Soaked) -> list[str]:
    """Return what is wrong, a line each; a run that is stopped by failures or interrupted has only those."""
    failed = [f"machine {number}: {failure.error}" for number, failure in soaked.failures.items()]
    failed += [line for traces in soaked.repeated for line in traces.complaints()]
    if soaked.num_leaked:
        failed.append(f"{soaked.num_leaked} slots leaked")
    if soaked.stopped:
        failed.append(soaked.stopped)
    if failed or soaked.is_interrupted:
        return failed
    missed = [] if _is_of_some_workers(soaked) else [*_missed(soaked), *_unseen(soaked)]
    left_out = not_required(soaked)
    missed = [line for line in missed if _condition_of(line) not in left_out]
    return [*missed, *_idled(soaked), *_grown(soaked)]


def why_inconclusive(soaked: Soaked, is_part: bool) -> list[str]:
    """Return what the module brings and no machine ran, and whether nothing was drafted, a reason each.

    A part of a run has to run something.
    """
    refused = dict.fromkeys(soaked.brings.workers, soaked.refused[-1]) if soaked.refused else {}
    never = [] if is_part else _never(soaked)
    is_vain = soaked.num_machines > 0 and bool(soaked.drafts) and not soaked.drafts["proposed"]
    vain = ["nothing was drafted in any machine; more steps should do"] if is_vain else []
    return [*soaked.brings.reasons(soaked.ran, WORKER_NAMES, refused, is_part), *never, *vain]


def not_required(soaked: Soaked) -> dict[str, str]:
    """Return the conditions that machines reached too seldom and need not reach, and why.

    Machines of some workers cannot reach all, and a module that brings a scheduler alone has to do with some.
    """
    missed = [_condition_of(line) for line in _missed(soaked)]
    if _is_of_some_workers(soaked):
        return dict.fromkeys(missed, "machines are of the workers that the module brings, and of what these take")
    if soaked.brings.makes == (SCHEDULER,) and not soaked.brings.functions:
        because = "the module brings a scheduler alone, which has nothing to do with it"
        asked = {tag.value for tag in OF_SCHEDULERS} | {f"a row used again after {end}" for end in ENDS}
        return dict.fromkeys((name for name in missed if name not in asked), because)
    return {}


def _never(soaked: Soaked) -> list[str]:
    """Return what has to happen sometimes and never did in a run of some length, and how many steps more would do."""
    is_short = soaked.num_steps < PER_STEPS or soaked.is_interrupted or soaked.stopped
    if is_short or soaked.failures or _is_of_some_workers(soaked):
        return []
    missed = {tag.value: more_steps(tag, soaked.num_steps) for tag in SOMETIMES if not soaked.reach[tag]}
    return [
        f"{name} never happened in {soaked.num_steps:,} steps; about {more:,} more should do"
        for name, more in missed.items()
    ]


def _condition_of(line: str) -> str:
    return line.partition(" = ")[0]


def _is_of_some_workers(soaked: Soaked) -> bool:
    """Return whether a module brings workers, and not one for every machine, or some that refuse machines."""
    brings = soaked.brings.workers
    return bool(brings) and (not {*brings} >= WORKER_NAMES or bool(soaked.refused) or not soaked.brings.functions)


def _missed(soaked: Soaked) -> Iterator[str]:
    least = least_hits(soaked.num_steps)
    hits = {tag.value: soaked.reach[tag] for tag in (*REQUIRED, *OWN)}
    hits |= {f"a row used again after {end}": soaked.reused[end] for end in ENDS}
    yield from (f"{name} = {hit}, but should be at least {least}" for name, hit in hits.items() if hit < least)


def _unseen(soaked: Soaked) -> Iterator[str]:
    unseen = [name for name in DRAFTERS if soaked.num_steps >= PER_STEPS and not soaked.algorithms[name]]
    yield from (f"machines of {name} = 0, but should be at least 1" for name in unseen)


def _idled(soaked: Soaked) -> list[str]:
    if soaked.num_steps < FEWEST_JUDGED:
        return []
    shares = (
        ("decode iterations", soaked.num_decodes, 2),
        ("decode iterations of four or more requests", soaked.num_wide_decodes, 10),
    )
    return [
        f"{what} = {got}, but should be at least 1 in {one_in} of {soaked.num_steps} steps"
        for what, got, one_in in shares
        if got * one_in < soaked.num_steps
    ]


def _grown(soaked: Soaked) -> list[str]:
    early, late = soaked.rss_mib
    if soaked.num_steps < FEWEST_MEASURED or late <= early * MOST_GROWTH:
        return []
    return [f"memory at the end = {late:.1f} MiB, but should be at most {MOST_GROWTH} times {early:.1f} MiB"]
