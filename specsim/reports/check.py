"""The page of ``specsim check``: operations, failures by cause, limits, known failures, properties."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specsim.reports.failures import Laws, Shown, shown_failures
from specsim.reports.tables import Address, Link, Status, Table, count, seconds, table

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Cause:
    """Failures that one fault may explain: the first, and the others."""

    key: str
    title: str
    loss: str
    first: Shown
    others: Sequence[Shown]

    @property
    def failures(self) -> list[Shown]:
        """All of them, the first at the head."""
        return [self.first, *self.others]


def view(document: Document, laws: Laws) -> dict[str, Any]:
    """Return what the template of a check needs."""
    causes, others = _by_cause(document, laws)
    places = {one.record["property"]: one.key for cause in causes for one in cause.failures}
    return {
        "causes": causes,
        "num_short": sum(not one.is_full for cause in causes for one in cause.failures),
        "others": others,
        "operations": _operations(document, causes),
        "missing": [name for name, one in document["operations"].items() if one["missing"]],
        "tried": _tried(document),
        "limits": _limits(document),
        "excluded": _excluded(document),
        "known": _known(document),
        "margins": _margins(document),
        "unpromised": _unpromised(document),
        "situations": _situations(document),
        "properties": _properties(document, places),
        "ran": _ran(document),
    }


def _by_cause(document: Document, laws: Laws) -> tuple[list[Cause], list[Shown]]:
    """Return the failures by cause, and those that belong to none, such as entries of known ones that hold no more."""
    records = {one["property"]: one for one in document["failures"]}
    order = [records[name] for group in document["groups"] for name in group["properties"]]
    rest = document["failure_records"][len(document["failures"]) :]
    shown = shown_failures([*order, *rest], laws, num_rows=len(document["properties"]))
    causes, start = [], 0
    for number, group in enumerate(document["groups"], 1):
        end = start + len(group["properties"])
        first, *others = shown[start:end]
        title = group["operation"] or "whole runs"
        causes.append(Cause(f"cause-{number}", title, group.get("loss", ""), first, others))
        start = end
    return causes, shown[start:]


def _operations(document: Document, causes: Sequence[Cause]) -> Table | None:
    first = {cause.title: cause.first.key for cause in reversed(causes)}
    known: dict[str, list[str]] = {}
    for one in document["known"]["expected"]:
        until = f"until {one['expires']}" if one["expires"] else "without a date"
        known.setdefault(one["operation"], []).append(f"{one['property']} ({until})")

    def row(name: str, one: Mapping[str, Any]) -> list[Any]:
        failed = one["failures"]
        failures = Link(count(failed), first[name]) if failed and name in first else count(failed)
        left_out = "; ".join(f"{words}: {count(number)}" for words, number in one["left_out"].items())
        margins = count(one["margin_cases"])
        return [name, count(one["examples"]), failures, margins, left_out, "; ".join(known.get(name, ()))]

    columns = ("operation", "#examples", "#failures", "#margin cases", "examples left out", "known failures")
    rows = (row(name, one) for name, one in document["operations"].items() if not one["missing"])
    return table("operations-table", "Operations that the module defines", columns, rows)


def _tried(document: Document) -> Table | None:
    tried = document["exhaustive"]
    if tried is None:
        return None
    rows = ((name, count(one["cases"]), count(one["tried"])) for name, one in tried["operations"].items())
    return table("tried-table", f"Cases of up to {tried['nodes']} nodes", ("operation", "#cases", "#tried"), rows)


def _limits(document: Document) -> Table | None:
    beyond = document["excluded"]["beyond"]
    counts: dict[str, int] = {}
    for one in document["excluded"]["properties"].values():
        for words, number in one["examples"].items():
            counts[words] = counts.get(words, 0) + number
    rows = (
        (words, count(counts.get(words, 0)), beyond.get(words, "not tried"))
        for words in dict.fromkeys([*document["excluded"]["declared"], *counts])
    )
    columns = ("what is declared", "#examples left out", "tried once beyond it")
    return table("limits-table", "Limits that the module declares", columns, rows)


def _excluded(document: Document) -> list[str]:
    return [name for name, one in document["excluded"]["properties"].items() if one["whole"]]


def _known(document: Document) -> Table | None:
    rows = (
        (
            one["property"],
            one["operation"] or "a whole run",
            one["message"],
            one["expires"] or "never",
            Address(one["link"]),
        )
        for one in document["known"]["expected"]
    )
    columns = ("property", "operation", "what is wrong", "expires", "described at")
    return table("known-table", "Failures that were expected", columns, rows)


def _margins(document: Document) -> Table | None:
    rows = (
        (name, count(one["margin_cases"]), count(one["examples"]))
        for name, one in document["properties"].items()
        if one["margin_cases"]
    )
    return table("margins-table", "Properties with margin cases", ("property", "#margin cases", "#examples"), rows)


def _unpromised(document: Document) -> Table | None:
    rows = (
        (name, count(one["calls"]), count(one["raised"]), one["strayed"] or one["not_run"] or "stayed in its bounds")
        for name, one in document["unpromised"].items()
    )
    columns = ("operation", "#calls", "#raised", "what came of the others")
    return table("unpromised-table", "Input that the module does not promise to refuse", columns, rows)


def _situations(document: Document) -> Table | None:
    rows = (
        (name, tag, count(number), count(one["examples"]))
        for name, one in document["properties"].items()
        for tag, number in one["tags"].items()
    )
    columns = ("property", "situation", "#examples that met it", "#examples")
    return table("situations-table", "Rare situations of single operations", columns, rows)


def _properties(document: Document, places: Mapping[str, str]) -> Table | None:
    known = {one["property"] for one in document["known"]["expected"]}

    def row(name: str, one: Mapping[str, Any]) -> list[Any]:
        became = "known failure" if name in known else _became(document, name, one)
        remark = one["inconclusive"] or one["not_run"] or ("cut after these examples" if one["cut"] else "")
        return [name, Status(became, places.get(name, "")), count(one["examples"]), seconds(one["seconds"]), remark]

    rows = (row(name, one) for name, one in document["properties"].items())
    return table("properties-table", "Every property", ("property", "outcome", "#examples", "#seconds", "remark"), rows)


def _became(document: Document, name: str, one: Mapping[str, Any]) -> str:
    excluded = document["excluded"]["properties"].get(name, {"whole": False})
    kinds = (
        ("failed", one["failed"]),
        ("missing", one["missing"]),
        ("inconclusive", one["inconclusive"]),
        ("held", one["examples"]),
        ("excluded", excluded["whole"]),
    )
    return next((word for word, holds in kinds if holds), "not run")


def _ran(document: Document) -> list[str]:
    return [*ran_in_words(document), *_not_seen(document)]


def ran_in_words(document: Document) -> list[str]:
    """Return what of the module ran and how often, and what did not, a line a kind."""
    ran = (
        f"Ran, {kind.replace('_', ' ')}: {', '.join(f'{name} ({number:,})' for name, number in counts.items())}"
        for kind, counts in document["ran"].items()
    )
    left = (f"Did not run, {kind.replace('_', ' ')}: {', '.join(n)}" for kind, n in document["did_not_run"].items())
    return [*ran, *left]


def _not_seen(document: Document) -> Iterator[str]:
    for form, defects in document["not_seen"].items():
        for defect in defects:
            yield f"Not seen in {form}: {defect}"
