"""The page of ``specsim soak``: how often each condition was reached, failures with their histories, scopes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specsim.reports.check import ran_in_words
from specsim.reports.failures import Laws, shown_failures
from specsim.reports.tables import Bar, Status, Table, count, table

Document = Mapping[str, Any]

GROUPS = (
    ("reach", "Conditions that have to be reached"),
    ("events", "Conditions of specsim's own, which have to be reached too"),
    ("sometimes", "Situations that a long run has to come to sometimes"),
)


def view(document: Document, laws: Laws) -> dict[str, Any]:
    """Return what the template of a soak, or of all short histories, needs."""
    shown = shown_failures(document["failure_records"], laws, unit="machine")
    own = _of_scopes(document) if "scopes" in document else _of_machines(document)
    return {"failures": shown, "is_exhaustive": "scopes" in document, **own}


def _of_machines(document: Document) -> dict[str, Any]:
    excused = document["not_required"]
    reach = [
        _conditions(key, title, document[key], document["meanings"], excused, document["least"])
        for key, title in GROUPS
    ]
    ends = {end: f"a row was used again after {end.replace('_', ' ')}" for end in document["reused_after"]}
    kinds = {name: f"machines of {name}" for name in document["algorithms"]}
    return {
        "reach": [
            *reach,
            _conditions("reused", "How rows were left before they were used again", document["reused_after"], ends),
            _conditions("algorithms", "Algorithms", document["algorithms"], kinds),
        ],
        "figures": _figures(document),
        "schedules": document["schedules"],
        "repeated": _repeated(document),
        "excused": table("excused-table", "Not required", ("what", "because"), excused.items()),
        "ran": ran_in_words(document),
    }


def _conditions(
    key: str,
    title: str,
    counts: Mapping[str, int],
    meanings: Mapping[str, str],
    excused: Iterable[str] = (),
    least: int = 0,
) -> Table | None:
    longest = max(counts.values(), default=0)

    def row(name: str, number: int) -> Sequence[Any]:
        is_short = name not in excused and number < least
        became = "too seldom" if is_short and key != "sometimes" else "reached" if number else "never"
        return name, Bar(count(number), _share(number, longest)), Status(became), meanings[name]

    rows = (row(name, number) for name, number in counts.items())
    return table(f"{key}-table", title, ("condition", "#times", "outcome", "what it is"), rows)


def _share(number: int, longest: int) -> float:
    """Return how long a bar is: by the logarithm, as counts differ by thousands."""
    return math.log1p(number) / math.log1p(longest) if longest else 0.0


def _figures(document: Document) -> Table | None:
    machines = document["properties"]["machines"]
    drafts = machines["drafts"] or {}
    rows = (
        ("machines", count(document["machines"]), "engines that were built, run and drained"),
        ("steps", count(document["steps"]), "rules that were applied"),
        ("decodes", count(document["decode_iterations"]), "iterations that verified"),
        ("wide decodes", count(document["wide_decode_iterations"]), "of four or more requests"),
        ("leaked slots", count(document["leaked_slots"]), "slots that nothing owns after a machine"),
        *((f"{what} drafts", count(number), "in all engines") for what, number in drafts.items()),
    )
    return table("figures-table", "Figures", ("what", "#times", "meaning"), rows)


def _repeated(document: Document) -> Table | None:
    rows = (
        (str(one["machine"]), who, *one[who], "the same" if len(set(one[who])) == 1 else "DIFFERENT")
        for one in document["repeated"]
        for who in ("implementation", "reference")
    )
    return table("repeated-table", "Machines that ran twice", ("machine", "who", "first", "again", "outcome"), rows)


def _of_scopes(document: Document) -> dict[str, Any]:
    columns = ("scope", "#states", "#transitions", "#merged", "#depth", "exhausted")
    rows = (
        (
            one["scope"],
            *(count(one[key]) for key in ("states", "transitions", "merged", "depth")),
            "yes" if one["exhausted"] else "no",
        )
        for one in document["scopes"]
    )
    meanings = dict.fromkeys(document["events"], "in all transitions")
    return {
        "scopes": table("scopes-table", "Every short history of small engines", columns, rows),
        "reach": [_conditions("events", "Events", document["events"], meanings)],
    }
