"""Exact joint laws of two requests whose drafts a schedule chooses from: all that are tabulated, and three to move."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from specsim.properties.host.schedules.exact_law import Form, Schedule, joint_law
from specsim.properties.host.schedules.examples import (
    LEAST_SUM,
    SCHEDULES,
    TWO_DRAFTS,
    Choose,
    best,
    drawn,
    other_than,
    schedule_of,
    two_requests,
)
from specsim.properties.host.schedules.stopping_points import first_unpredictable
from specsim.properties.strategies.sampling_scenes import ChainScene
from specsim.properties.suite.live.figures import Table, html_table, in_words

PARTS = 60
"""Chances that sliders set are multiples of 1/PARTS."""

SETTINGS = ((30, 45, 15, 40, 30, 54), (12, 40, 55, 20, 48, 33), (30, 30, 30, 45, 6, 51))
"""The chance of token 0, in parts: of the target at first, after 0 and after 1, and of the draft; first the table's."""

BUDGETS = range(1, 4)
LEAST_SUMS = (Fraction(2), LEAST_SUM, Fraction(5, 2))

LOOK_AHEAD = {Form.FRESH: 0, Form.COUPLED: 1, Form.BLOCK: 0, Form.CAPPED_BLOCK: 1}
"""How many drafts after the cut each form judges; draws judge none, and what a schedule reads changes nothing."""

BEFORE, AFTER, OWN = "before", "after", "own"
"""What a scheduler ranks drafts by: what was known before each was drawn, its own probability; or its own budget."""


def setting(parts: Sequence[int]) -> tuple[ChainScene, ChainScene]:
    """Return two requests with some chances of token 0."""
    chances = [Fraction(part, PARTS) for part in parts]
    return two_requests(chances[:3], chances[3:], 2)


def three(scenes: Sequence[ChainScene]) -> Iterator[tuple[str, int | Fraction, Choose]]:
    """Yield the three schedulers of the page, each with some budgets, or with some sums of survivals."""
    for budget in BUDGETS:
        yield BEFORE, budget, best(scenes, budget)
        yield AFTER, budget, best(scenes, budget, drawn)
    for least in LEAST_SUMS:
        yield OWN, least, best(scenes, other_than(least, 0, 2))


def _entry(scenes: Sequence[ChainScene], choose: Choose) -> Table:
    schedule: Schedule = schedule_of(scenes, choose)
    return {
        "lengths": {" | ".join(map(in_words, drafts)): in_words(chosen) for drafts, chosen in schedule.items()},
        "stops": [first_unpredictable(schedule, 2, look_ahead) is None for look_ahead in (0, 1)],
        "laws": [_figures(scenes, schedule, form) for form in Form],
    }


def _figures(scenes: Sequence[ChainScene], schedule: Schedule, form: Form) -> dict[str, Any]:
    law = joint_law(scenes, schedule, form)
    return {
        "distance": str(law.distance),
        "alone": [str(one) for one in law.by_request],
        "dependence": str(law.dependence),
        "verified": str(law.num_verified),
        "emitted": str(law.num_emitted),
    }


def table() -> Table:
    """Return the joint laws of the tabulated schedules, and those of the three that sliders move."""
    moved = [
        {"parts": parts, "rule": rule, "by": str(by), **_entry(scenes, choose)}
        for parts in SETTINGS
        for scenes in [setting(parts)]
        for rule, by, choose in three(scenes)
    ]
    tabulated = [{"name": name, **_entry(TWO_DRAFTS, choose)} for name, choose in SCHEDULES.items()]
    return {"parts": PARTS, "forms": [form.value for form in Form], "tabulated": tabulated, "moved": moved}


def html(entries: Table) -> str:
    """Return the distance of every tabulated schedule in every form."""
    rows = [[entry["name"], *(law["distance"] for law in entry["laws"])] for entry in entries["tabulated"]]
    header = ["schedule", "fresh", "coupled", "block, cut", "block, capped", "draws"]
    return html_table("Total variation of the joint law of two requests", header, rows)
