"""What is wrong with a soak, machines that fail; and why one decides too little: what few machines reached, or none."""

from collections.abc import Iterator

from specsim.algorithms import DRAFTERS
from specsim.conformance.backend import SCHEDULER
from specsim.properties.soak import tags
from specsim.properties.soak.drafters import WORKER_NAMES
from specsim.properties.soak.run import Soaked
from specsim.simulation.drafted import is_vacuous

FEWEST_MEASURED = 20_000
"""Steps from which on memory is judged: what is loaded and kept once is there after a fifth of them."""

MOST_GROWTH = 1.08


def complaints(soaked: Soaked) -> list[str]:
    """Return what is wrong, a line each."""
    failed = [f"machine {number}: {failure.error}" for number, failure in soaked.failures.items()]
    failed += [line for traces in soaked.repeated for line in traces.complaints()]
    if soaked.num_leaked:
        failed.append(f"{soaked.num_leaked} slots leaked")
    if soaked.stopped:
        failed.append(soaked.stopped)
    return failed if failed or soaked.is_interrupted else _grown(soaked)


def why_inconclusive(soaked: Soaked, is_part: bool) -> list[str]:
    """Return what the module brings and no machine ran, what a run came to too seldom, and whether nothing was drafted.

    A part of a run has to run something, and nothing else.
    """
    refused = dict.fromkeys(soaked.brings.workers, soaked.refused[-1]) if soaked.refused else {}
    is_whole = not (is_part or soaked.is_interrupted or soaked.stopped or soaked.failures)
    return [
        *soaked.brings.reasons(soaked.ran, WORKER_NAMES, refused, is_part),
        *(_shortfalls(soaked) if is_whole else ()),
        *(
            ["nothing was drafted in any machine; more steps should do"]
            if is_vacuous(soaked.num_machines, soaked.drafts)
            else ()
        ),
    ]


def not_required(soaked: Soaked) -> dict[str, str]:
    """Return the conditions that machines reached too seldom and need not reach, and why.

    Machines of some workers cannot reach all, and a module that brings a scheduler alone has to do with some.
    """
    missed = _missed(soaked)
    if _is_of_some_workers(soaked):
        return dict.fromkeys(missed, "machines are of the workers that the module brings, and of what these take")
    if soaked.brings.makes == (SCHEDULER,) and not soaked.brings.functions:
        because = "the module brings a scheduler alone, which has nothing to do with it"
        asked = {tag.value for tag in tags.OF_SCHEDULERS} | {f"a row used again after {end}" for end in tags.ENDS}
        return dict.fromkeys((name for name in missed if name not in asked), because)
    return {}


def _shortfalls(soaked: Soaked) -> Iterator[str]:
    """Yield what happened too seldom, and about how many steps more would do."""
    if not _is_of_some_workers(soaked):
        left_out, least = not_required(soaked), tags.least_hits(soaked.num_steps)
        missed = {name: hits for name, hits in _missed(soaked).items() if name not in left_out}
        yield from (_shortfall(soaked, name, hits, least, tags.LEAST_HITS) for name, hits in missed.items())
        yield from (_shortfall(soaked, name, 0, 1, 1) for name in _unseen(soaked))
    yield from _idled(soaked)


def _shortfall(soaked: Soaked, name: str, hits: int, least: int, wanted: int) -> str:
    """Return that something should be met more often, and how many steps more would bring it to what is wanted."""
    more = tags.more_steps(hits, soaked.num_steps, wanted)
    return f"{name} = {hits} in {soaked.num_steps:,} steps, but should be at least {least}; {more}"


def _is_of_some_workers(soaked: Soaked) -> bool:
    """Return whether a module brings workers, and not one for every machine, or some that refuse machines."""
    brings = soaked.brings.workers
    return bool(brings) and (not {*brings} >= WORKER_NAMES or bool(soaked.refused) or not soaked.brings.functions)


def _missed(soaked: Soaked) -> dict[str, int]:
    """Return how often each condition was met that was met too seldom."""
    least = tags.least_hits(soaked.num_steps)
    hits = {tag.value: soaked.reach[tag] for tag in (*tags.REQUIRED, *tags.OWN)}
    hits |= {f"a row used again after {end}": soaked.reused[end] for end in tags.ENDS}
    return {name: hit for name, hit in hits.items() if hit < least}


def _unseen(soaked: Soaked) -> list[str]:
    """Return what has to happen once in a long run and did not."""
    if soaked.num_steps < tags.PER_STEPS:
        return []
    machines = [f"machines of {name}" for name in DRAFTERS if not soaked.algorithms[name]]
    return machines + [tag.value for tag in tags.SOMETIMES if not soaked.reach[tag]]


def _idled(soaked: Soaked) -> list[str]:
    if soaked.num_steps < tags.FEWEST_JUDGED:
        return []
    shares = (
        ("decode iterations", soaked.num_decodes, 2),
        ("decode iterations of four or more requests", soaked.num_wide_decodes, 10),
    )
    return [
        f"{what} = {got:,} in {soaked.num_steps:,} steps, but should be at least 1 in {one_in}; "
        "at this rate no number of steps would do"
        for what, got, one_in in shares
        if got * one_in < soaked.num_steps
    ]


def _grown(soaked: Soaked) -> list[str]:
    early, late = soaked.rss_mib
    if soaked.num_steps < FEWEST_MEASURED or late <= early * MOST_GROWTH:
        return []
    return [f"memory at the end = {late:.1f} MiB, but should be at most {MOST_GROWTH} times {early:.1f} MiB"]
