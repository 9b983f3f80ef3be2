"""What a module brings, what of it ran, and what no driver ran: a verdict about that would be about something else."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from specsim.algorithms import Drafter
from specsim.conformance.backend import SCHEDULER, Backend
from specsim.conformance.catalogue import CATALOGUE, Kind
from specsim.conformance.plain_text import named
from specsim.operations.derived.signature import nearest

NAMES_OF_KINDS = {
    Kind.OPERATION: "operations",
    Kind.MODEL_OPERATION: "operations",
    Kind.SAMPLER_WITHOUT_COINS: "operations",
    Kind.HOST_FUNCTION: "host_functions",
    Kind.PART: "parts",
}
WORKERS, SCHEDULERS = "workers", "schedulers"
KINDS = (*dict.fromkeys(NAMES_OF_KINDS.values()), WORKERS, SCHEDULERS)
"""Keys of a document, in order."""

ORACLE = "specsim.reference"
"""Stands in for whatever else a module lacks: where it is tried itself, loops are, and no function has to run."""


@dataclass(frozen=True)
class Brought:
    """What a module brings: names of functions, and of what whole runs are built of, its workers and its scheduler.

    ``alike`` has groups of names that are one class of workers, ``drafters`` the names of drafters that it brings
    alone, whose workers are among ``makes``.
    """

    name: str = ""
    functions: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    alike: tuple[tuple[str, ...], ...] = ()
    drafters: tuple[str, ...] = ()

    @classmethod
    def of(cls, backend: Backend) -> "Brought":
        """Return what a backend brings."""
        functions = tuple(name for name in backend.functions if name in CATALOGUE)
        return cls(backend.name, functions, backend.makes, backend.alike, tuple(backend.drafters))

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of its workers."""
        return tuple(name for name in self.makes if name != SCHEDULER)

    @property
    def workers_of_drafters(self) -> frozenset[str]:
        """The names of the workers that run its drafters."""
        return frozenset(Drafter(name=name).worker_name(is_v1) for name in self.drafters for is_v1 in (True, False))

    @property
    def by_kind(self) -> dict[str, list[str]]:
        """The names of everything, by kind."""
        found: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for name in self.functions:
            found[NAMES_OF_KINDS[CATALOGUE[name].kind]].append(name)
        found[WORKERS] = [*self.workers]
        found[SCHEDULERS] = [name for name in self.makes if name == SCHEDULER]
        return found

    def ran(self, uses: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Return how often everything ran that did, by kind; kinds of which nothing ran are left out."""
        ran = {kind: {name: uses[name] for name in names if uses.get(name)} for kind, names in self.by_kind.items()}
        return {kind: counts for kind, counts in ran.items() if counts}

    def did_not_run(self, uses: Mapping[str, int]) -> dict[str, list[str]]:
        """Return the names of what did not run, by kind; kinds of which everything ran are left out."""
        left = {kind: [name for name in names if not uses.get(name)] for kind, names in self.by_kind.items()}
        return {kind: names for kind, names in left.items() if names and self.name != ORACLE}

    def with_alike(self, uses: Mapping[str, int]) -> Counter[str]:
        """Return the counts with those of a class under each of its names."""
        shared = Counter(uses)
        for names in self.alike:
            shared.update({name: sum(uses.get(one, 0) for one in names if one != name) for name in names})
        return shared

    def reasons(
        self,
        uses: Mapping[str, int],
        known: Collection[str],
        refused: Mapping[str, str] | None = None,
        is_part: bool = False,
    ) -> Iterator[str]:
        """Yield why a run decides too little about the module: what of it never ran, a reason each.

        Functions of a module with workers of its own need not run: its workers call them uncounted.

        Parameters
        ----------
        known : collection of str
            The names of workers that the drivers run.
        refused : mapping or None
            Why a worker did not run, by its name, where that is known.
        is_part : bool
            Whether only a part of a run was asked for, so that something has to run, and not everything.
        """
        if self.name in ("", ORACLE):  # NOTE: without a name no process has answered, and that has reasons of its own.
            return
        if not (self.functions or self.makes):
            yield f"{self.name} brings nothing that could run"
        if is_part and any(uses.get(name) for names in self.by_kind.values() for name in names):
            return
        left = self.did_not_run(uses)
        for name in left.pop(WORKERS, ()):
            if name not in known and name not in self.workers_of_drafters:
                yield f"no driver runs a worker of the name {name}: WORKERS may have {_spelt(name, known)}"
            else:
                because = (refused or {}).get(name, "")
                yield f"the worker {name} never ran" + (f": {because}" if because else "")
        if left.pop(SCHEDULERS, ()):
            yield "the scheduler never ran"
        functions = [name for names in left.values() for name in names]
        if functions and not self.workers:
            yield f"never called: {named(functions)}"


def _spelt(name: str, known: Collection[str]) -> str:
    return ", ".join(nearest(name, known)) or ", ".join(sorted(known))
