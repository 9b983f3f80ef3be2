"""The built site asks no other place for anything, and each page of operations has what it should.

``python -m tests.site FOLDER`` prints what is wrong, and ends with 1 if anything is.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

from specsim.operations import MODEL_TABLE, RECORDS

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
"""What a browser loads by itself, by the attribute that says from where."""

NOT_LOADED = {"canonical", "next", "prev", "author", "index", "search"}
"""Relations of links that a browser does not follow."""


class Loads(HTMLParser):
    """Collects what a page loads."""

    def __init__(self):
        super().__init__()
        self.targets = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in LOADED and given.get("rel") not in NOT_LOADED and given.get(LOADED[tag]):
            self.targets.append(given[LOADED[tag]])


def faults_of(page, folder):
    """Yield what a page loads that is not there."""
    loads = Loads()
    loads.feed(page.read_text(encoding="utf-8"))
    for target in loads.targets:
        parts = urlsplit(target)
        if parts.scheme == "data":
            continue
        if parts.scheme or parts.netloc:
            yield f"{page.relative_to(folder)} loads {target}"
        elif not (page.parent / parts.path).exists():
            yield f"{page.relative_to(folder)} loads {target}, which is not there"


def lacks_of(folder):
    """Yield what the page of an operation lacks."""
    for name, record in RECORDS.items():
        page = folder / "reference" / f"{'models' if name in MODEL_TABLE else record.group}.html"
        _, found, rest = page.read_text(encoding="utf-8").partition(f'id="{name.replace("_", "-")}"')
        part = rest.partition("<section")[0]
        for what in ("Laws: ", "Faults: ", "planted"):
            if what not in part:
                yield f"{page.name} has no {what!r} for {name}{'' if found else ', nor a heading'}"
    reports = (folder / "reports.html").read_text(encoding="utf-8")
    for place in ("cli.html#specsim-check", "cli.html#cmdoption-specsim-check-strict"):
        if place not in reports:
            yield f"reports.html does not lead to {place}"
    for page in {"models" if name in MODEL_TABLE else record.group for name, record in RECORDS.items()}:
        if ".svg" not in (folder / "reference" / f"{page}.html").read_text(encoding="utf-8"):
            yield f"{page}.html has no picture"


def main(folder):
    """Print what is wrong."""
    pages = sorted(folder.rglob("*.html"))
    wrong = [fault for page in pages for fault in faults_of(page, folder)] + list(lacks_of(folder))
    print("\n".join(wrong) or f"{len(pages)} pages load nothing from elsewhere")
    return 1 if wrong or len(pages) < len(RECORDS) // 4 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
