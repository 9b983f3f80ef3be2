"""Failures by their cause: what an operation shows by itself explains what others that call it show."""

from collections.abc import Sequence
from dataclasses import dataclass

from specsim.conformance.catalogue import CATALOGUE
from specsim.conformance.given import WITH_OUTPUTS
from specsim.operations import RECORDS
from specsim.properties.suite.catalogue import all_properties, properties_by_name
from specsim.properties.suite.conformance.report import Failure
from specsim.properties.suite.conformance.smaller import weigh

ASPECTS = {"strided": "layout", "mutation": "arguments", "rejection": "bad input", "anything": "bad input"}
ASPECTS |= {"apart": "memory"}
"""What groups of properties try that may be wrong while the values of the others are right."""

LAW, TOKENS = "the emitted law is wrong", "tokens are not those of plain decoding"
LOSSES = {"P01": TOKENS, "P02": LAW, "P03": LAW, "P04": LAW, "P07": LAW, "P55": TOKENS}
"""What users lose where a law is broken, by the kind of the law."""

VALUES = "values"
EXPLAINS_NOTHING = frozenset(["bad input", "memory"])
"""What cannot be why a run of good calls goes wrong."""


@dataclass(frozen=True)
class Cause:
    """Failures that one fault may explain.

    Parameters
    ----------
    operation : str
        Where the fault shows by itself; empty where only whole runs do.
    first : Failure
        The smallest case of the operation's own; of a law that says what users lose, if one with a case is broken.
    others : tuple of Failure
        The rest, in the order of the suite.
    loss : str
        What users lose, where the operation's own failures break a law that says so; empty otherwise.
    """

    operation: str
    first: Failure
    others: tuple[Failure, ...] = ()
    loss: str = ""


def causes_of(failures: Sequence[Failure]) -> tuple[Cause, ...]:
    """Return the failures by cause: first those by which users lose something, then in the order of the table.

    Failures of properties that call one operation belong together if they show alike: the same exception, or wrong
    values; what depends on strides, arguments that change and bad input count apart. Of wrong values, what their cases
    show has to be alike too: where one cause is taken away, which is an output or an unusual argument, no failure
    that it explains is left. A property of several operations is explained by the first of them that fails by itself.
    """
    operations = {one.name: () if one.fills_missing else one.operations for one in all_properties()}
    of_runs = {one.name: one.operations for one in all_properties()}
    own: dict[tuple[str, str], list[Failure]] = {}
    others: list[Failure] = []
    for failure in failures:
        called = [name for name in operations.get(failure.property, ()) if name not in WITH_OUTPUTS]
        if len(called) == 1:
            own.setdefault((called[0], _symptom(failure)), []).append(failure)
        else:
            others.append(failure)
    found = [_Group(*key, own_failures) for key, together in own.items() for own_failures in _apart(together)]
    alone: list[_Group] = []
    for failure in others:
        called = [name for name in of_runs.get(failure.property, ()) if name not in WITH_OUTPUTS]
        roots = sorted(
            (group for group in found if group.operation in called and group.explains_runs),
            key=lambda group: (group.symptom != _symptom(failure), _place_of(group.operation)),
        )
        if roots:
            roots[0].explained.append(failure)
        else:
            alone.append(_Group(failure.operation, "", [failure]))
    found.sort(key=lambda group: (_place_of(group.operation), group.symptom != VALUES, group.symptom))
    own_causes, of_runs_alone = ([group.cause() for group in groups] for groups in (found, alone))
    return (*sorted(own_causes, key=_comes_late), *of_runs_alone)


class _Group:
    """Failures of one operation that show alike, and what they explain."""

    def __init__(self, operation: str, symptom: str, own: Sequence[Failure]) -> None:
        self.operation, self.symptom = operation, symptom
        self.own = own
        self.explained: list[Failure] = []

    @property
    def explains_runs(self) -> bool:
        """Whether it can be why a run goes wrong, whose calls have usual arguments and read no scratch memory."""
        evidence = self.own[0].evidence
        is_scratch = bool(evidence.wrong) and set(evidence.wrong) <= _scratch_of(self.operation)
        return not (self.symptom in EXPLAINS_NOTHING or evidence.needs or is_scratch)

    def cause(self) -> Cause:
        """Return the cause."""
        first = min(self.own, key=_rank)
        together = (*self.own, *self.explained)
        loss = next(filter(None, map(loss_of, (first, *self.own))), "")
        return Cause(self.operation, first, tuple(one for one in together if one is not first), loss)


def loss_of(failure: Failure) -> str:
    """Return what users lose, if a broken law says so: not where it takes unusual arguments."""
    one = properties_by_name().get(failure.property)
    is_usual = failure.fate == "FAILED" and not failure.evidence.needs
    return LOSSES.get(one.catalogue, "") if one is not None and is_usual else ""


def _apart(failures: Sequence[Failure]) -> list[list[Failure]]:
    """Return failures that look alike in groups: those of one group are gone where the first cause is taken away.

    A failure whose case shows nothing belongs to the first group.
    """
    known = sorted((one for one in failures if one.evidence.wrong), key=_rank)
    groups: list[list[Failure]] = []
    while known:
        first = known[0]
        groups.append([one for one in known if one is first or _is_explained(one, first)])
        known = [one for one in known if one is not first and not _is_explained(one, first)]
    rest = [one for one in failures if not one.evidence.wrong]
    if rest:
        groups = [[*groups[0], *rest], *groups[1:]] if groups else [rest]
    order = {id(one): place for place, one in enumerate(failures)}
    return [sorted(group, key=lambda one: order[id(one)]) for group in groups]


def _is_explained(other: Failure, first: Failure) -> bool:
    """Return whether a failure is gone without the cause of the first: they share a wrong output, and what it takes."""
    shared = set(first.evidence.wrong) & set(other.evidence.wrong)
    needs, others_needs = set(first.evidence.needs), set(other.evidence.needs)
    return bool(shared) and (bool(needs & others_needs) or needs == others_needs)


def _comes_late(cause: Cause) -> tuple[bool, bool]:
    """Return whether no law says that users lose something: none of the operation's own, none at all."""
    return not cause.loss, not any(loss_of(one) for one in cause.others)


def _scratch_of(operation: str) -> set[str]:
    return set(RECORDS[operation].contract.scratch) if operation in RECORDS else set()


def _rank(one: Failure) -> tuple[bool, bool, bool, int]:
    """Return what decides which failure stands for a cause: that it has a case, what is lost, then the smallest."""
    return (one.case is None, not loss_of(one), not one.difference, 0 if one.case is None else weigh(one.case))


def _symptom(failure: Failure) -> str:
    """Return how a failure shows: as the end of a process, an exception, or in one of the aspects."""
    if failure.fate != "FAILED":
        return failure.fate
    raised = _raised(failure.error)
    if raised not in ("", "AssertionError"):
        return raised
    return ASPECTS.get(failure.property.partition(".")[0], VALUES)


def _raised(error: str) -> str:
    """Return the type of the exception that a traceback ends with."""
    lines = error.splitlines()
    frames = [place for place, line in enumerate(lines) if line.startswith('  File "')]
    last_words = lines[frames[-1] + 1 :] if frames else lines
    return next((line.partition(":")[0] for line in last_words if line and not line.startswith(" ")), "")


def _place_of(operation: str) -> int:
    return list(CATALOGUE).index(operation) if operation in CATALOGUE else len(CATALOGUE)
