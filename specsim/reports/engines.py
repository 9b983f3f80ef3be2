"""What was measured of which engine: stored results of ``specsim check``, and the page that they make.

``python -m specsim.reports.engines keep FILE.json docs/results`` keeps what the page needs of a ``--json`` document,
with today's date; ``python -m specsim.reports.engines page docs/results`` prints the page.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import specsim
from specsim.properties.suite.catalogue import GENERATED, all_properties, group_of
from specsim.properties.suite.pages import place_of, table

HEADER = """# What engines were measured

Results of `specsim check specsim.engines.ENGINE --json` that are kept in `docs/results`, as
`python -m specsim.reports.engines page docs/results` prints them. A run is *stale* when the adapter is written for
another release by now, or the suite has laws that the run did not know.
"""
SECTION = """
## Laws

How many examples held; *known* failures are explained in the [findings](findings.md). A dash says that nothing is
known: the engine has no such operation, or the run did not come to the law. Laws that no run came to are left out.
"""


@dataclass(frozen=True)
class Result:
    """One run of an adapter, as far as the page needs it.

    Parameters
    ----------
    adapter, version, device, date, specsim : str
        What ran, of which release, on what, on which day (ISO 8601, UTC), and which specsim found it.
    seed : int
        That of the run.
    held, failed, known : mapping
        Examples by property, of those that held, that failed, and that failed as was expected.
    missing : tuple of str
        Properties that need what the adapter lacks, or that limits excluded.
    """

    adapter: str
    version: str
    device: str
    date: str
    specsim: str
    seed: int
    held: Mapping[str, int]
    failed: Mapping[str, int]
    known: Mapping[str, int]
    missing: tuple[str, ...]

    @classmethod
    def of(cls, document: Mapping[str, Any], date: str) -> "Result":
        """Return what a document of a check says.

        Raises
        ------
        KeyError
            It is of another command, or the implementation names no version.
        """
        properties: Mapping[str, Mapping[str, Any]] = document["properties"]
        known = {one["property"] for one in document["known"]["expected"]}
        failed = {name for name, one in properties.items() if one["failed"]} - known
        ran = {name: one["examples"] for name, one in properties.items() if one["examples"]}
        return cls(
            adapter=document["implementation"].removeprefix("specsim.engines."),
            version=document["version"],
            device=document["device"],
            date=date,
            specsim=document["versions"]["specsim"],
            seed=document["seed"],
            held={name: number for name, number in ran.items() if name not in known | failed},
            failed={name: ran[name] for name in sorted(failed & ran.keys())},
            known={name: ran[name] for name in sorted(known & ran.keys())},
            missing=tuple(name for name in properties if name not in ran),
        )

    def state(self) -> str:
        """Return whether the run says something about today's adapter and today's suite."""
        written_for = release_of(self.adapter.partition("_")[0])
        if written_for != self.version:
            return f"stale: the adapter is written for {written_for}"
        ran, seen = {*self.held, *self.failed, *self.known}, {*self.held, *self.failed, *self.known, *self.missing}
        defined = {name.removeprefix("agreement.") for name in ran if name.startswith("agreement.")}
        # NOTE: which of the properties that every operation has are asked depends on what the adapter promises.
        laws = [one for one in all_properties() if group_of(one) not in GENERATED]
        new = [one.name for one in laws if one.name not in seen and defined.issuperset(one.operations)]
        return f"stale: {len(new)} laws more by now" if new else "current"


def release_of(engine: str) -> str:
    """Return the release that an adapter is written for, which its source says without the engine."""
    source = (Path(specsim.__file__).parent / "engines" / engine / "release.py").read_text(encoding="utf-8")
    (release,) = re.findall(r'^WRITTEN_FOR = "([^"]+)"$', source, re.MULTILINE)
    return str(release)


def read_results(folder: Path) -> list[Result]:
    """Return the results of a folder, by adapter and release."""
    found = [Result(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda one: (one.adapter, one.version, one.device))


def keep(document: Path, folder: Path) -> Path:
    """Write what the page needs of a document, and return where."""
    result = Result.of(json.loads(document.read_text(encoding="utf-8")), datetime.now(UTC).date().isoformat())
    place = (
        folder / f"{result.adapter}-{result.version}-{'-'.join(result.device.lower().replace(',', '').split())}.json"
    )
    place.write_text(json.dumps(asdict(result), indent=1) + "\n", encoding="utf-8")
    return place


def page(results: Iterable[Result]) -> str:
    """Return the page."""
    results = list(results)
    return "\n".join([HEADER, *_runs(results), SECTION, *_laws(results)]) + "\n"


def _runs(results: list[Result]) -> list[str]:
    header = ("adapter", "release", "device", "date", "seed", "examples", "held", "known", "failed", "not run", "state")
    rows = []
    for one in results:
        examples = sum(map(sum, (one.held.values(), one.known.values(), one.failed.values())))
        counts = (len(one.held), len(one.known), len(one.failed), len(one.missing))
        facts = (one.version, one.device, one.date, one.seed, examples, *counts, one.state())
        rows.append((f"`{one.adapter}`", *map(str, facts)))
    return table(header, rows)


def _laws(results: list[Result]) -> list[str]:
    rows = []
    for one in all_properties():
        cells = [_cell(result, one.name) for result in results]
        if any(cells):
            rows.append((f"[`{one.name}`]({place_of(one)})", *(cell or "–" for cell in cells)))
    return table(("law", *(f"{one.adapter} {one.version}" for one in results)), rows)


def _cell(result: Result, name: str) -> str:
    if name in result.held:
        return f"held {result.held[name]}"
    return "**failed**" if name in result.failed else "known" if name in result.known else ""


if __name__ == "__main__":
    _what, *_paths = sys.argv[1:]
    if _what == "keep":
        print(keep(*map(Path, _paths)))
    else:
        print(page(read_results(Path(_paths[0]))), end="")
