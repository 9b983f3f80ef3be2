"""Run properties against an implementation in this process, and count what ran."""

from collections.abc import Callable, Sequence

from specsim.conformance.backend import Backend
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.conformance.report import Failure, PropertyReport, Report, assemble
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.conformance.selection import examples_of, is_selected, reported_names


def check(
    backend: Backend,
    *,
    seed: int,
    max_examples: int,
    operations: Sequence[str] | None = None,
    slow_examples: int | None = None,
    with_models: bool = False,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Run the suite here; ``specsim.properties.suite.conformance.isolated`` runs it where an implementation may crash.

    Parameters
    ----------
    backend : Backend
        The implementation.
    seed : int
        Decides every example; equal seeds run equal examples.
    max_examples : int
        Examples of each agreement property. The other properties get a share of it, at least one example.
    operations : sequence of str or None
        Run only properties that name one of these, and report only these.
    slow_examples : int or None
        Examples of each property that runs a whole engine; by default a share of ``max_examples``.
    with_models : bool
        Also run the operations of the toy models against an implementation that has none of them and no worker.
    on_progress : callable or None
        Called with the name of a property, how many are done, and how many there are.
    """
    chosen = [one for one in all_properties() if is_selected(one, backend, operations, with_models)]
    reports: dict[str, PropertyReport] = {}
    failures: dict[str, Failure] = {}
    for done, one in enumerate(chosen, 1):
        examples = examples_of(one, max_examples, slow_examples)
        reports[one.name], failure = run_property(one, backend, seed, examples)
        if failure is not None:
            failures[one.name] = failure
        if on_progress is not None:
            on_progress(one.name, done, len(chosen))
    reported = {name: backend.has(name) for name in reported_names(backend, operations, with_models)}
    return assemble(backend.name, seed, chosen, reports, failures, reported)
