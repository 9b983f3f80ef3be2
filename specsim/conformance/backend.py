"""An implementation under test: one namespace of functions, called with NumPy arrays whatever it computes on."""

import importlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from specsim.algorithms import Drafter, own_drafters
from specsim.algorithms.own import BadDrafters, loops_of, worker_names
from specsim.conformance import arrays as numpy_arrays
from specsim.conformance.binding import bound
from specsim.conformance.calls import CallsByName
from specsim.conformance.carrying import (
    as_list,
    check_written,
    copy_in_place,
    out_of_memory,
    plain_scalar,
    why_not_carried,
)
from specsim.conformance.catalogue import CATALOGUE, Kind, find_entry, names_of, record_of
from specsim.conformance.given import WITH_OUTPUTS, functions_with_outputs, without_lacking
from specsim.conformance.isolation.heartbeat import begin_call, end_call, stay
from specsim.conformance.limits import NO_LIMITS, Limits, limits_of, missing_of
from specsim.conformance.outside import require_inside
from specsim.conformance.piping.command import BadCommand, NoCommand, command_of, import_command
from specsim.conformance.plain_text import said, words_of
from specsim.conformance.raised import Undefined
from specsim.contracts.contract import ArraySpec, ScalarSpec
from specsim.discovery import import_class, modules_that_say
from specsim.operations.derived.signature import name_arguments
from specsim.operations.outputs import outputs_of
from specsim.operations.record import Operation
from specsim.operations.without_coins import SUFFIX
from specsim.rejection import Reason, SpecRejection, WorkerRefusal

EAGLE_V1, EAGLE_V2 = "eagle_v1", "eagle_v2"
"""Names of the two workers that a module may name by attributes of their own."""

SCHEDULER = "SCHEDULER"
"""What the scheduler of a module is counted as."""


class BackendUnavailable(RuntimeError):
    """The implementation does not import, or says it computes on arrays that are not known."""


@dataclass(frozen=True)
class Outcome:
    """What a call returned and what it left in its arguments, all on the host.

    ``outputs`` holds the outputs and the arguments that the table lets the operation write, None for those that the
    implementation declares not to write; ``arguments`` holds every argument as it was after the call.
    """

    outputs: dict[str, Any]
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Backend(CallsByName):
    """Functions by name, and the module that carries arrays to and from them.

    Every callable of the catalogue is a method: ``backend.verify_tree_greedy(candidates, …)`` on NumPy arrays, by
    position or by name. ``arrays`` has ``from_numpy(array)`` and ``to_numpy(array)``. ``from_numpy`` of the NumPy
    module returns the very same array; of any other it copies. Its context managers ``poisoned_outputs(pattern)`` and
    ``debugging()`` switch the checks of the layer on, where it has any. ``rejects`` says that bad input raises
    ``SpecRejection``. ``worker`` and ``worker_v1`` build the implementation's own workers of V2 and of V1 from a
    configuration, a model and pool sizes, where it has them, ``other_workers`` those of other algorithms, by the names
    that ``SpeculativeAlgorithm.worker_name`` gives them, and ``scheduler`` its own scheduler from what ours is made of.
    ``drafters`` are those that it brings alone: our loops with their draft sides are among ``other_workers``.
    ``drafted_by`` drafts in its workers of EAGLE, where these are such loops; models then have what it needs.
    ``max_samples`` is the most outcomes that a statistical law may ask of it, None for as many as the law needs.
    ``limits`` is what it declares not to take: such calls are not made. ``uses`` counts how often each function was
    called, each worker and the scheduler were made, by name; copies count together.
    """

    name: str
    functions: Mapping[str, Callable[..., Any]]
    arrays: ModuleType
    rejects: bool = False
    worker: Callable[..., Any] | None = None
    max_samples: int | None = None
    worker_v1: Callable[..., Any] | None = None
    scheduler: Callable[..., Any] | None = None
    other_workers: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    drafters: Mapping[str, Drafter] = field(default_factory=dict)
    drafted_by: Drafter | None = None
    limits: Limits = NO_LIMITS
    uses: Counter[str] = field(default_factory=Counter, compare=False, repr=False)

    @property
    def workers(self) -> dict[str, Callable[..., Any]]:
        """What builds each worker of the implementation, by the name of the worker."""
        eagle = {EAGLE_V1: self.worker_v1, EAGLE_V2: self.worker}
        return {**{name: build for name, build in eagle.items() if build is not None}, **self.other_workers}

    def has_own_drafts(self, name: str) -> bool:
        """Return whether the worker of a name drafts what no reference drafts, so that outputs alone are compared."""
        return name in worker_names(self.drafters) or (self.limits.has_own_drafts and name in self.workers)

    @property
    def brings_drafters_alone(self) -> bool:
        """Whether drafters are all that the implementation brings."""
        return bool(self.drafters) and not self.functions and {*self.makes} == worker_names(self.drafters)

    @property
    def makes(self) -> tuple[str, ...]:
        """The names of what the implementation builds whole runs of: its workers, and its scheduler."""
        return (*self.workers, *[SCHEDULER] * (self.scheduler is not None))

    @property
    def alike(self) -> tuple[tuple[str, ...], ...]:
        """The names of each worker that has several."""
        named: dict[int, list[str]] = {}
        for name, build in self.workers.items():
            named.setdefault(id(build), []).append(name)
        return tuple(tuple(names) for names in named.values() if len(names) > 1)

    @property
    def has_worker(self) -> bool:
        """Whether the implementation has a worker of EAGLE of its own, of either kind."""
        return self.worker is not None or self.worker_v1 is not None

    def own_worker(self, is_v1: bool) -> Callable[..., Any] | None:
        """Return what builds the implementation's own worker of EAGLE of one kind, or None if it has none."""
        return self.worker_v1 if is_v1 else self.worker

    def build_worker(self, name: str, drafting: Any, model: Any, sizes: Any, **options: Any) -> Any:
        """Return the implementation's own worker of a name.

        Raises
        ------
        WorkerRefusal
            It refuses the configuration, the model or the pools by name (``BAD_CONFIGURATION``).
        """
        try:
            worker = self.workers[name](drafting, model, sizes, **options)
        except SpecRejection as refusal:
            if refusal.reason is not Reason.BAD_CONFIGURATION:
                raise
            raise WorkerRefusal(refusal) from refusal
        self.uses[name] += 1
        return worker

    def make_scheduler(self, default: Callable[..., Any]) -> Callable[..., Any]:
        """Return what makes the implementation's own scheduler, or the default if it has none."""
        if self.scheduler is None:
            return default
        self.uses[SCHEDULER] += 1
        return self.scheduler

    def has(self, name: str) -> bool:
        """Return whether the implementation defines a callable."""
        return name in self.functions

    def with_function(self, operation: str, function: Callable[..., Any], name: str) -> "Backend":
        """Return a copy in which one operation is replaced; workers of its own would not call it, and are left out."""
        functions = {**self.functions, operation: function}
        return replace(self, name=name, functions=functions, worker=None, worker_v1=None, other_workers={}, drafters={})

    def without_limits(self) -> "Backend":
        """Return a copy that is called with everything, whatever the implementation declares."""
        return replace(self, limits=NO_LIMITS)

    def host(self, name: str) -> Callable[..., Any]:
        """Return a function of the host, or a part of an engine; one of ours calls what the implementation brings.

        Raises
        ------
        Undefined
            The implementation lacks it.
        """
        if name not in self.functions:
            raise Undefined(f"{self.name} does not define {name}")
        self.uses[name] += 1
        begin_call(name)
        return bound(name, self.functions[name], self.functions.get, self.host)

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call a host function or a part as it is, and an operation on NumPy arrays.

        What the table lets an operation write is written into the arguments.

        Returns
        -------
        outputs : array, named tuple of arrays, or None
            As the reference function returns them.

        Raises
        ------
        Undefined
            The implementation lacks the callable.
        SpecRejection
            UNKNOWN_NAME: nothing is called so; UNKNOWN_ARGUMENT; MISSING_ARGUMENT; READ_ONLY, SHARED_MEMORY: what is
            written could not be; and whatever the operation refuses.
        OutsideLimits
            The implementation declares that it takes no such call.
        """
        if find_entry(name).kind in (Kind.HOST_FUNCTION, Kind.PART):
            return self.host(name)(*positional, **named)
        record = self._defined(name)
        arguments = name_arguments(record, positional, named)
        require_inside(self.limits, record, arguments)
        check_written(record, arguments)
        self.uses[name] += 1
        begin_call(name, arguments)
        carried = self._carry_named(record, arguments)
        try:
            returned = self._returned(record, carried)
        except MemoryError as error:
            if not self.rejects:
                raise
            raise out_of_memory(record, error) from error
        for written in record.contract.writes:
            for target, source in zip(as_list(arguments[written]), as_list(carried[written]), strict=True):
                np.ndarray.__setitem__(target, ..., self._fetch(source))
        outputs = [self._fetch(value) for value in returned]
        end_call()
        if len(outputs) > 1:
            return outputs_of(name.removesuffix(SUFFIX))(*outputs)
        return outputs[0] if outputs else None

    def run(self, operation: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call an operation on copies of NumPy arrays and report what it returned and what it wrote."""
        contract = (record := self._defined(operation)).contract
        require_inside(self.limits, record, arguments)
        carried = self.carry(operation, arguments)
        returned = self._returned(record, carried)
        after = self.fetch(operation, carried)
        outputs = {spec.name: self._fetch(value) for spec, value in zip(contract.outputs, returned, strict=True)}
        unwritten = () if self.limits.writes_scratch else contract.scratch
        outputs.update({name: None if name in unwritten else after[name] for name in contract.writes})
        end_call()
        return Outcome(outputs=outputs, arguments=after)

    def carry(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return copies of the arguments in the arrays of this backend, defaults filled in.

        Integers and truth values of NumPy become those of Python: kernels and their launchers know no others.
        """
        self.uses[operation] += 1
        begin_call(operation, named := name_arguments(record := record_of(operation), (), arguments))
        return self._carry_named(record, named)

    def fetch(self, operation: str, carried: Mapping[str, Any]) -> dict[str, Any]:
        """Bring carried arguments back to the host."""
        return {
            spec.name: self._fetch(carried[spec.name]) if isinstance(spec, ArraySpec) else carried[spec.name]
            for spec in record_of(operation).contract.parameters
        }

    def _defined(self, operation: str) -> Operation:
        record = record_of(operation)
        if operation not in self.functions:
            raise Undefined(f"{self.name} does not define {operation}; write it beside {record.group}.py")
        return record

    def _returned(self, record: Operation, carried: Mapping[str, Any]) -> tuple[Any, ...]:
        """Call an operation on carried arguments and return its outputs, as many as it has."""
        name, num_outputs = record.name, len(record.contract.outputs)
        returned = stay(name, self.functions[name], carried)
        values = returned if isinstance(returned, tuple) else (returned,) if num_outputs else ()
        if len(values) != num_outputs:
            raise AssertionError(f"{name} returned {len(values)} arrays, but should return {num_outputs}")
        return values

    def _carry_named(self, record: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {
                spec.name: plain_scalar(spec, arguments[spec.name])
                if isinstance(spec, ScalarSpec)
                else self._carry(arguments[spec.name])
                for spec in record.contract.parameters
            }
        except Exception as error:  # NOTE: a library may refuse an array in any way.
            raise why_not_carried(record, arguments, self._carry) from error

    def _carry(self, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, list | tuple):
            return [self._carry(entry) for entry in value]
        return self.arrays.from_numpy(np.array(value, order="C") if self.limits.is_contiguous else copy_in_place(value))

    def _fetch(self, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, list | tuple):
            return [self._fetch(entry) for entry in value]
        return self.arrays.to_numpy(value)


def load(name: str) -> Backend:
    """Import ``package.module`` and take its functions that are named as in the catalogue.

    A module that computes on torch tensors says ``ARRAYS = "torch"``; without the attribute it gets NumPy arrays.
    One that raises ``SpecRejection`` for bad input says ``REJECTS = True``. One with a worker of its own names the
    class, ``WORKER = "package.module.Class"``, or gives it, that of its V1 worker ``WORKER_V1``, of its scheduler
    ``SCHEDULER``; workers of any algorithms stand in ``WORKERS``, a class by the name of each worker, and drafters for
    our loops in ``DRAFTERS``, as ``own_drafters`` reads them. One whose host functions stand in another module names
    it, ``HOST``, and one whose parts of an engine do, ``PARTS``. One that is slow to sample from says ``MAX_SAMPLES =
    1000``. What it does not take it declares as ``limits_of`` reads it, and names that it has but does not implement
    are listed in ``MISSING``. ``command:`` and a command line name a command that is called over a pipe.

    Raises
    ------
    BackendUnavailable
        The module does not import, or the command cannot be started.
    BadCommand
        What the command says when it is started makes no sense.
    BadLimits
        What it declares makes no sense.
    """
    is_command = command_of(name) is not None
    if not is_command and not all(part.isidentifier() for part in name.split(".")):
        raise BackendUnavailable(f"{name!r} does not import: name a module as in an import, without slashes and .py")
    try:
        module = import_command(name) if is_command else importlib.import_module(name)
        kind = str(vars(module).get("ARRAYS", numpy_arrays.KIND))
        carriers = modules_that_say("KIND", "arrays")
        if kind not in carriers:
            raise BackendUnavailable(f"{name}.ARRAYS is {kind!r}, but should be one of {sorted(carriers)}")
        arrays = importlib.import_module(carriers[kind])
        own = ("WORKER", "WORKER_V1", "SCHEDULER")
        worker, worker_v1, scheduler = (_class_of(f"{name}.{one}", vars(module).get(one)) for one in own)
        given = dict(vars(module).get("WORKERS", {}))
        workers = {one: _class_of(f"{name}.WORKERS[{one!r}]", path) for one, path in given.items()}
        drafters = own_drafters(vars(module).get("DRAFTERS", {}), kind)
        workers |= loops_of(drafters, kind)
        host = importlib.import_module(str(vars(module).get("HOST", name)))
        parts = importlib.import_module(str(vars(module).get("PARTS", name)))
    except NoCommand as error:
        raise BackendUnavailable(f"{error}") from error
    except (BackendUnavailable, BadCommand):
        raise
    except BadDrafters as error:
        raise BackendUnavailable(f"{name}.{error}") from error
    except Exception as error:  # NOTE: a foreign module may raise anything at all when it is imported.
        raise BackendUnavailable(f"{name} does not import: {type(error).__name__}: {words_of(error)}") from error
    limits = limits_of(vars(module), name)
    at_home = {name: vars(module)[name] for name in CATALOGUE if callable(vars(module).get(name))}
    records = {name: record for name in at_home if (record := CATALOGUE[name].record) is not None}
    at_home |= {name: without_lacking(limits, record, at_home[name]) for name, record in records.items()}
    from_host = {name: vars(host)[name] for name in names_of(Kind.HOST_FUNCTION) if callable(vars(host).get(name))}
    from_parts = {name: vars(parts)[name] for name in names_of(Kind.PART) if callable(vars(parts).get(name))}
    defined = {**from_host, **from_parts, **at_home, **functions_with_outputs(vars(module), name, arrays, limits)}
    missing = missing_of(vars(module), name, CATALOGUE)
    functions = {
        name: defined[name]
        for name in (*CATALOGUE, *WITH_OUTPUTS)
        if name in defined and name not in missing and WITH_OUTPUTS.get(name) not in missing
    }
    most = vars(module).get("MAX_SAMPLES")
    loaded = Backend(
        name=name,
        functions=functions,
        arrays=arrays,
        rejects=bool(vars(module).get("REJECTS", False)),
        worker=worker or workers.pop(EAGLE_V2, None),
        max_samples=None if most is None else int(most),
        worker_v1=worker_v1 or workers.pop(EAGLE_V1, None),
        scheduler=scheduler,
        other_workers={name: build for name, build in workers.items() if name not in (EAGLE_V1, EAGLE_V2)},
        drafters=drafters,
        limits=limits,
    )
    # NOTE: drafts of its own are compared with no drafts of the reference, also where a module does not say so.
    return replace(loaded, limits=replace(limits, has_own_drafts=True)) if loaded.brings_drafters_alone else loaded


def _class_of(what: str, given: Any) -> Any:
    """Return the class that a module names, or has; None where it has none."""
    if given is None or callable(given):
        return given
    if not isinstance(given, str) or "." not in given:
        raise BackendUnavailable(f'{what} is {said(given)}, but should be a class or its name, "package.module.Class"')
    return import_class(given)
