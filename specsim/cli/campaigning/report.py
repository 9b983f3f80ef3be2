"""What a campaign shows while it runs, and what it came to: a table, the failures by cause, or one JSON document."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsim.campaigns.causes import Found
from specsim.campaigns.drive import Campaign
from specsim.campaigns.plan import Wanted
from specsim.cli.documents import FailureRecord, PropertyRecord, shared_document
from specsim.cli.output import OnProgress, last_line, plain_table, print_table, reasons_of, say, verdict_of
from specsim.conformance.plain_text import named, printable, shown

SECONDS_OF_AN_HOUR = 3600
MOST_LINES = 40
"""Lines of a history that are printed; its file has all."""


class Watch:
    """Shows units, examples a second and failures, on a bar of the units or of the seconds that there are."""

    def __init__(self, hours: float | None, on_progress: OnProgress | None) -> None:
        self._hours, self._on_progress = hours, on_progress
        self._before: int | None = None

    def __call__(self, campaign: Campaign, seconds: float) -> None:
        """Show how far a campaign is, after so many seconds of this session."""
        total = campaign.total
        if self._on_progress is None:
            return
        self._before = total.examples if self._before is None else self._before
        rate = (total.examples - self._before) / seconds if seconds else 0.0
        words = f"{total.units:,} units, {rate:,.0f} examples/s, {total.failures:,} failures"
        if self._hours is not None:
            whole = round(self._hours * SECONDS_OF_AN_HOUR)
            self._on_progress(words, min(round(campaign.clock), whole), whole)
        else:
            self._on_progress(words, total.units, campaign.num_units or total.units)


@dataclass(frozen=True)
class Report:
    """What a campaign came to, as users read it.

    Parameters
    ----------
    campaign : Campaign
        That.
    implementation, wanted, folder, seeds : str, Wanted, Path, str
        What was run, where its results are, and which seeds it had, in words.
    """

    campaign: Campaign
    implementation: str
    wanted: Wanted
    folder: Path
    seeds: str

    @property
    def found(self) -> list[Found]:
        """The failures by cause."""
        return self.campaign.causes.found()

    @property
    def verdict(self) -> str:
        """As of ``specsim check``: what failed first, then what decided too little."""
        wrong = [one.message for one in self.found]
        if not (self.campaign.total.units or self.campaign.lost or self.campaign.is_interrupted or self.because):
            return "nothing selected"
        return verdict_of(is_interrupted=self.campaign.is_interrupted, wrong=wrong, because=self.because)

    @property
    def because(self) -> list[str]:
        """Why it decides too little, where it does."""
        return self.campaign.because

    @property
    def last_line(self) -> str:
        """The verdict and what was counted."""
        total = self.campaign.total
        failed = f"{len(self.found)} causes of {total.failures:,} failing units, " if self.found else ""
        counted = f"{total.units:,} units, {total.examples:,} examples, {failed}{self.seeds}"
        return last_line(self.verdict, counted, self.because)

    def print(self) -> None:
        """Print the counts by node, each cause with its smallest case, and the last line."""
        campaign = self.campaign
        table = plain_table("node", "#units", "#examples", "#failing", "#seconds")
        for name, tally in sorted(campaign.by_node.items()):
            counts = (f"{tally.units:,}", f"{tally.examples:,}", f"{tally.failures:,}", f"{tally.seconds:,.1f}")
            table.add_row(name, *counts)
        if table.rows:
            print_table(table)
        if campaign.num_resumed:
            say(f"resumed: {campaign.num_resumed:,} units were there")
        if campaign.num_lost:
            say(f"lost with their nodes and run again: {campaign.num_lost:,} units")
        say(f"new behaviour: {campaign.num_finds:,} tags and failures that no unit before had met")
        for one in self.found:
            for line in _lines_of(one):
                say(line)
        for name, why in campaign.undecided.items():
            say(f"undecided: {name}: {shown(why)}")
        if campaign.is_interrupted:
            say(f"resume: the same command goes on with what is in {self.folder}")
        say(self.last_line)

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        campaign = self.campaign
        records = [_record_of(one) for one in self.found]
        properties = {
            name: PropertyRecord(tally.examples, bool(tally.failures), tally.busy_seconds)
            for name, tally in campaign.by_arm.items()
        }
        return {
            **shared_document(self.verdict, records, properties),
            "inconclusive_because": reasons_of(self.verdict, self.because),
            "implementation": self.implementation,
            "seed": self.wanted.seeds.first,
            "last_seed": self.wanted.seeds.last,
            "kinds": [kind.value for kind in self.wanted.kinds],
            "folder": str(self.folder),
            "units": campaign.total.units,
            "all_units": campaign.num_units,
            "examples": campaign.total.examples,
            "failing_units": campaign.total.failures,
            "causes": [vars(one) | {"names": list(one.names), "history": list(one.history)} for one in self.found],
            "nodes": {
                name: {
                    "units": tally.units,
                    "examples": tally.examples,
                    "failing_units": tally.failures,
                    "seconds": round(tally.seconds, 3),
                    "busy_seconds": round(tally.busy_seconds, 3),
                }
                for name, tally in sorted(campaign.by_node.items())
            },
            "resumed_units": campaign.num_resumed,
            "lost_runs": campaign.num_lost,
            "lost_units": campaign.lost,
            "undecided": campaign.undecided,
            "finds": campaign.num_finds,
            "seconds": round(campaign.clock, 1),
        }


def _record_of(one: Found) -> FailureRecord:
    return FailureRecord(
        operation=one.operation,
        property=one.first,
        fate=one.fate,
        message=one.message,
        error=one.error,
        difference=one.difference,
        case=one.case,
        replay=one.replay,
        history=list(one.history) or None,
    )


def _lines_of(one: Found) -> list[str]:
    who = one.operation or "a whole run"
    count = "1 unit" if one.num_units == 1 else f"{one.num_units:,} units"
    fate = "" if one.fate == "FAILED" else f" ! {one.fate}"
    lines = [f"\nFAILURE of {who}, found by {count}: {one.first}{fate}"]
    lines += [f"  {line}" for line in printable(one.message).splitlines()]
    lines += [f"  first difference from the reference: {one.difference}"] if one.difference else []
    lines += [f"  {line}" for line in one.history[:MOST_LINES]]
    lines += [f"  replay: {one.replay}"]
    others = [name for name in one.names if name != one.first]
    return [*lines, *([f"  most likely for the same reason: {named(others)}"] if others else [])]
