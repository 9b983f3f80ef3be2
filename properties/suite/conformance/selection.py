"""Which properties are run against an implementation, and with how many examples."""

from collections.abc import Sequence
from dataclasses import dataclass

from specsim.conformance.backend import Backend
from specsim.conformance.catalogue import CATALOGUE, Kind, names_of
from specsim.conformance.given import WITH_OUTPUTS
from specsim.operations import MODEL_TABLE
from specsim.operations.without_coins import WITHOUT_COINS
from specsim.properties.property import FEWEST_FOR_WEIGHTY, OF_EAGLE, OF_ENGINES, Property
from specsim.properties.suite.catalogue import OF_ITS_OWN_RULES, group_of

SHARES = {"agreement": 1.0, "empty": 0.1, "mutation": 0.1, "apart": 0.1}
OTHER_SHARE = 0.2
SLOW_SHARE = 0.05
FEWEST_PLAYED = 4
"""Examples of a law that plays a worker which hardly another law does, where an implementation has nothing else."""


@dataclass(frozen=True)
class Described:
    """An implementation as another process describes it; ``alike`` has the names of each of its classes of workers."""

    name: str
    functions: frozenset[str]
    rejects: bool
    has_worker: bool
    makes: tuple[str, ...] = ()
    alike: tuple[tuple[str, ...], ...] = ()
    drafters: tuple[str, ...] = ()

    @classmethod
    def of(cls, backend: Backend) -> "Described":
        """Return what is to be known of a backend."""
        functions, drafters = frozenset(backend.functions), tuple(backend.drafters)
        return cls(backend.name, functions, backend.rejects, backend.has_worker, backend.makes, backend.alike, drafters)

    def has(self, name: str) -> bool:
        """Return whether it defines a callable."""
        return name in self.functions


Promises = Backend | Described
"""What has to be known of an implementation to choose properties."""


def brings_models(backend: Promises) -> bool:
    """Return whether an implementation is checked with the operations of the toy models without being asked to."""
    return backend.has_worker or any(backend.has(name) for name in MODEL_TABLE)


def is_selected(
    one: Property, backend: Promises, operations: Sequence[str] | None = None, with_models: bool = False
) -> bool:
    """Return whether a property is run: it names a wanted operation, and the backend promises what it asks for.

    Where nothing in particular is wanted, operations of the toy models are wanted of an implementation that brings
    them or is asked for them; properties that call none, or get them from the reference, are wanted of all.
    """
    if group_of(one) in OF_ITS_OWN_RULES and not backend.rejects:
        return False
    if not all(backend.has(name) for name in (WITHOUT_COINS.keys() | WITH_OUTPUTS.keys()) & set(one.operations)):
        return False
    if operations is None:
        calls_models = not one.fills_missing and not MODEL_TABLE.keys().isdisjoint(one.operations)
        return not calls_models or with_models or brings_models(backend)
    wanted = set(operations) & set(one.operations)
    return any(backend.has(name) for name in wanted) if one.fills_missing else bool(wanted)


def is_runnable(one: Property, backend: Promises) -> bool:
    """Return whether the implementation has a worker that is enough, or operations that are, filled in or not.

    Drafters that it brings are played where workers of EAGLE are.
    """
    enough = any if one.fills_missing else all
    is_of_drafters = bool(backend.drafters) and not {*OF_EAGLE}.isdisjoint(one.plays)
    return (
        is_of_drafters
        or any(name in backend.makes for name in one.plays)
        or enough(backend.has(operation) for operation in one.operations)
    )


def is_borrowed(one: Property, backend: Promises) -> bool:
    """Return whether the loop of a whole run is the reference's: the implementation brings single operations alone."""
    return one.is_slow and not (backend.has_worker or backend.makes)


def examples_of(one: Property, max_examples: int, slow_examples: int | None = None) -> int:
    """Return how many examples a property gets; one that is as long as many others gets none in a quick look."""
    if one.weight > 1 and max_examples < FEWEST_FOR_WEIGHTY:
        return 0
    if one.is_slow and slow_examples is not None:
        return -(-slow_examples // one.weight)
    share = SLOW_SHARE if one.is_slow else SHARES.get(group_of(one), OTHER_SHARE)
    return max(one.least_examples, round(max_examples * share / one.weight))


def least_examples_of(one: Property, backend: Promises) -> int:
    """Return how many examples a property gets at least of an implementation that has workers alone.

    Few laws play the workers of other algorithms than EAGLE, and an example of theirs may be one of another worker.
    """
    is_of_workers = not any(backend.has(name) for name in CATALOGUE)
    return FEWEST_PLAYED if is_of_workers and {*one.plays} & {*backend.makes} - {*OF_ENGINES} else 0


def reported_names(backend: Promises, operations: Sequence[str] | None, with_models: bool) -> list[str]:
    """Return the names that a report lists: operations even if they are missing, of the host what is there."""
    kinds = [Kind.OPERATION]
    if operations is not None or with_models or brings_models(backend):
        kinds.append(Kind.MODEL_OPERATION)
    kinds_of_some = (Kind.HOST_FUNCTION, Kind.PART, Kind.SAMPLER_WITHOUT_COINS)
    there = [name for name in names_of(*kinds_of_some) if backend.has(name)]
    listed = {*names_of(*kinds), *there}
    return [name for name in CATALOGUE if name in listed and (operations is None or name in operations)]
