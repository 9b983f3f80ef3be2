"""One mutant: a known fault in one operation, and the ways to put it there."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from specsim.conformance.backend import EAGLE_V1, EAGLE_V2, Backend
from specsim.operations import RECORDS
from specsim.properties.mutants.edits import edited, faults_in
from specsim.reference.worker.pools import Pools
from specsim.simulation.loops import loop_of
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.worker import Worker
from specsim.validation.checking import check_call

Function = Callable[..., Any]
Named = dict[str, Any]


@dataclass(frozen=True)
class Mutant:
    """A faulty variant of one operation, or of the loop that calls it.

    Parameters
    ----------
    id : str
        Number in the catalogue of real faults, ``SYN`` for their synthetic companions, ``OWN`` for the project's own.
    operation : str
        The operation that is replaced.
    summary : str
        What is wrong, in one sentence.
    inject : callable
        Takes the correct function and returns the faulty one, with the same parameters.
    worker, worker_v1 : callable or None
        Take a configuration, a model and pool sizes and return a worker of V2 or V1 that has the fault, where no
        operation has it; ``operation`` then says by which properties it should be found.
    scheduler : callable or None
        Takes what a scheduler is made of and returns one that has the fault, in the same way.
    workers : dict
        Workers of other algorithms that have the fault, by name; each is built as the reference's own of that name.
    """

    id: str
    operation: str
    summary: str
    inject: Callable[[Function], Function]
    worker: Callable[..., Worker] | None = None
    scheduler: Callable[..., Scheduler] | None = None
    worker_v1: Callable[..., Worker] | None = None
    workers: Mapping[str, Callable[..., Worker]] = field(default_factory=dict)

    def plant(self, correct: Backend) -> Backend:
        """Return an implementation with the fault."""
        parts = {name: vars(self)[name] for name in ("worker", "worker_v1", "scheduler")}
        if self.workers or any(part is not None for part in parts.values()):
            return replace(correct, name=self.id, other_workers={**correct.other_workers, **self.workers}, **parts)
        return correct.with_function(self.operation, self.inject(correct.functions[self.operation]), self.id)


def mutants_of(operation: str, *faults: tuple[str, str, Callable[[Function], Function]]) -> tuple[Mutant, ...]:
    """Return the mutants of one operation, of each its number, what is wrong, and what injects that."""
    return tuple(Mutant(number, operation, summary, inject) for number, summary, inject in faults)


def mutants_by_operation(
    *more: tuple[Mutant, ...], **faults: Sequence[tuple[str, str, Callable[[Function], Function]]]
) -> tuple[Mutant, ...]:
    """Return the mutants of several operations, each with its faults as `mutants_of` takes them, and then some more."""
    of_each = [mutants_of(operation, *of_one) for operation, of_one in faults.items()]
    return tuple(mutant for some in (*of_each, *more) for mutant in some)


def edits_of(diffs: str, **names: Any) -> tuple[Mutant, ...]:
    """Return the mutants that a text of diffs describes, as `faults_in` reads it; ``names`` are those of `edited`."""
    return tuple(
        Mutant(number, operation, summary, edited(*pairs, within=place, **names))
        for operation, place, number, summary, *pairs in faults_in(diffs)
    )


def edits_of_sides(names: Sequence[str], diffs: str, **named: Any) -> tuple[Mutant, ...]:
    """Return mutants that have the edits of a text of diffs in the draft sides of some workers."""
    return _planted(edits_of(diffs, **named), lambda inject: in_sides(inject, *names))


def edits_of_loops(names: Sequence[str], diffs: str, **named: Any) -> tuple[Mutant, ...]:
    """Return mutants that have the edits of a text of diffs in the loops of some workers."""
    return _planted(edits_of(diffs, **named), lambda inject: in_loops(inject, *names))


def edits_of_pools(names: Sequence[str], diffs: str, **named: Any) -> tuple[Mutant, ...]:
    """Return mutants that have the edits of a text of diffs in the pools that the loops of some workers make."""
    return _planted(edits_of(diffs, **named), lambda inject: in_loops(with_pools(inject), *names))


def edits_of_scheduler(diffs: str, **named: Any) -> tuple[Mutant, ...]:
    """Return mutants that have the edits of a text of diffs in the scheduler."""
    return _planted(edits_of(diffs, **named), in_scheduler)


def mutants_of_sides(
    operation: str, names: Sequence[str], faults: Iterable[tuple[str, str, Callable[..., Any]]]
) -> tuple[Mutant, ...]:
    """Return mutants that have a fault in the draft side of some workers.

    Of each there is its number, what is wrong, and a side, or what injects the fault into the correct one.
    """
    return _planted(mutants_of(operation, *faults), lambda side: in_sides(side, *names))


def mutants_of_loops(
    operation: str, names: Sequence[str], faults: Iterable[tuple[str, str, Callable[..., Any]]]
) -> tuple[Mutant, ...]:
    """Return mutants that have a fault in the loops of some workers.

    Of each there is its number, what is wrong, and what injects the fault into the correct loop.
    """
    return _planted(mutants_of(operation, *faults), lambda inject: in_loops(inject, *names))


def _planted(
    faults: Iterable[Mutant], parts_with: Callable[[Callable[..., Any]], dict[str, Any]]
) -> tuple[Mutant, ...]:
    """Return mutants that have in parts of an engine what injects a fault into an operation."""
    return tuple(replace(one, inject=unchanged, **parts_with(one.inject)) for one in faults)


def in_sides(side: Callable[..., Any], *names: str) -> dict[str, Any]:
    """Return the parts of a mutant whose fault is in the draft sides of some workers."""
    return _by_part({name: _with_side(name, side) for name in names})


def in_loops(inject: Callable[..., Any], *names: str) -> dict[str, Any]:
    """Return the parts of a mutant whose fault is in the loops of some workers."""
    return _by_part({name: _with_loop(name, inject) for name in names})


def in_scheduler(inject: Callable[..., Any]) -> dict[str, Any]:
    """Return the parts of a mutant whose fault is in the scheduler."""
    return {"scheduler": _when_asked_for(inject, Scheduler)}


def with_pools(inject: Callable[..., Any]) -> Callable[..., Any]:
    """Inject a fault in the pools that a loop makes."""
    return lambda loop: partial(loop, make_pools=inject(Pools).of)


def _by_part(workers: dict[str, Callable[..., Worker]]) -> dict[str, Any]:
    """Return workers by name as the parts of a mutant that they are."""
    return {"worker": workers.pop(EAGLE_V2, None), "worker_v1": workers.pop(EAGLE_V1, None), "workers": workers}


def _with_side(name: str, side: Callable[..., Any]) -> Callable[..., Worker]:
    loop: Any = loop_of(name)
    make_side = side if isinstance(side, type) else _when_asked_for(side, loop.keywords["make_side"])
    return partial(loop, make_side=make_side)


def _with_loop(name: str, inject: Callable[..., Any]) -> Callable[..., Worker]:
    loop: Any = loop_of(name)
    return partial(_when_asked_for(inject, loop.func), **loop.keywords)


def _when_asked_for(inject: Callable[..., Any], correct: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls a faulty class, which is made when a run first asks for it and not when this is imported."""
    faulty = functools.cache(lambda: inject(correct))

    @functools.wraps(correct)
    def make(*given: Any, **named: Any) -> Any:
        return faulty()(*given, **named)

    vars(make)["faulty"] = faulty
    return make


def with_facts(**changes: Any) -> Callable[[Function], Function]:
    """Inject other facts about a draft side."""

    def change(correct: Function, side: Any, *given: Any) -> None:
        correct(side, *given)
        side.facts = replace(side.facts, **changes)

    return overriding(__init__=change)


def unchanged(correct: Function) -> Function:
    """Inject nothing: the fault is in a worker or a scheduler."""
    return correct


def instead(function: Function) -> Callable[[Function], Function]:
    """Inject a whole re-implementation; its input is checked like that of the original."""
    return answering(lambda correct, own: (check_call(correct.__name__, own), function(**own))[1])


def unchecked(function: Function) -> Callable[[Function], Function]:
    """Inject a whole re-implementation that takes any input."""
    return answering(lambda _, arguments: function(**arguments))


def given(change: Callable[[Named], None]) -> Callable[[Function], Function]:
    """Inject a fault that hands other arguments to the correct function; ``change`` edits them by name."""

    def answer(correct: Function, arguments: Named) -> Any:
        if correct.__name__ in RECORDS:
            check_call(correct.__name__, arguments)
        change(arguments)
        return correct(**arguments)

    return answering(answer)


def with_arguments(**changes: Any) -> Callable[[Function], Function]:
    """Inject a fault that hands other values of some arguments over: each a value, or a function of the own one."""
    return given(lambda arguments: arguments.update(_changed(arguments, changes)))


def with_outputs(**changes: Any) -> Callable[[Function], Function]:
    """Inject a fault that returns other values of some outputs: each a value, or a function of the correct one."""
    return returning(lambda outputs, arguments: outputs.update(_changed(outputs, changes)))


def returning(change: Callable[[Named, Named], None]) -> Callable[[Function], Function]:
    """Inject a fault in what the correct function returned; ``change`` edits outputs and sees arguments, by name."""

    def answer(correct: Function, arguments: Named) -> Any:
        names = [spec.name for spec in RECORDS[correct.__name__].contract.outputs]
        returned = correct(**arguments)
        values = returned if isinstance(returned, tuple) else (returned,)
        outputs = dict(zip(names, values, strict=True)) if names else {}
        change(outputs, arguments)
        changed = tuple(outputs[name] for name in names)
        return changed if len(names) > 1 else changed[0] if names else None

    return answering(answer)


def answering(answer: Callable[[Function, Named], Any]) -> Callable[[Function], Function]:
    """Inject a fault that answers in place of the correct function, which it may ask; nothing is checked."""

    def inject(correct: Function) -> Function:
        return wrapped(correct, lambda arguments: answer(correct, arguments))

    return inject


def with_fields(change: Callable[[Any, Named], Named]) -> Callable[[Function], Function]:
    """Inject a fault in fields of what the correct function returned; ``change`` takes that, and the arguments."""

    def answer(correct: Function, arguments: Named) -> Any:
        returned = correct(**arguments)
        return replace(returned, **change(returned, arguments))

    return answering(answer)


def overriding(**faults: Callable[..., Any]) -> Callable[[Function], Function]:
    """Inject faults in methods and properties of a class; each gets the correct one, the object and the arguments."""

    def inject(correct: Any) -> Function:
        members = {name: _faulty_member(getattr(correct, name), fault) for name, fault in faults.items()}
        return type(correct.__name__, (correct,), members)

    return inject


def _faulty_member(correct: Any, fault: Callable[..., Any]) -> Any:
    if isinstance(correct, property):
        return property(lambda self: fault(correct.fget, self))

    @functools.wraps(correct)
    def faulty(self: Any, *args: Any, **kwargs: Any) -> Any:
        return fault(correct, self, *args, **kwargs)

    return faulty


def wrapped(correct: Function, call: Callable[[Named], Any]) -> Function:
    """Return a function with the signature of the correct one that hands its arguments over by name."""
    signature = inspect.signature(correct)

    @functools.wraps(correct)
    def faulty(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return call(dict(bound.arguments))

    return faulty


def of_the_first(*names: str) -> Callable[[Function], Function]:
    """Inject a fault that gives all requests the values that the first has of some arguments."""
    return with_arguments(**dict.fromkeys(names, lambda values: np.resize(values[:1], values.shape)))


def of_the_neighbour(*names: str) -> Callable[[Function], Function]:
    """Inject a fault that gives each request the values that the one before it has of some arguments."""
    return with_arguments(**dict.fromkeys(names, lambda values: np.roll(values, 1, axis=0)))


def _changed(values: Named, changes: Named) -> Named:
    return {name: _new(values[name], change) for name, change in changes.items()}


def _new(value: Any, change: Any) -> Any:
    """Return another value; what a call leaves out has none to be made from, and stays away."""
    return change if not callable(change) else None if value is None else change(value)
