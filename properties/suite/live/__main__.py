"""Build the live page.

``python -m specsim.properties.suite.live docs/live SITE/live`` writes ``SITE/live/index.html``.
"""

import argparse
from pathlib import Path

TEMPLATE = "index.html"


def build(source: Path, target: Path) -> Path:
    """Write the page into a folder, which is made, and return its place."""
    mutants_page = source.with_name("mutants.md").read_text(encoding="utf-8")
    target.mkdir(parents=True, exist_ok=True)
    # NOTE: what is wrong with the folders is said before the suite is imported.
    from specsim.properties.suite.live.page import page

    place = target / TEMPLATE
    place.write_text(page(source, TEMPLATE, mutants_page), encoding="utf-8")
    return place


def main() -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(prog="python -m specsim.properties.suite.live", description="Build the live page.")
    parser.add_argument("source", type=Path, help="Folder with the template: docs/live of a checkout.")
    parser.add_argument("target", type=Path, help="Folder that the page is written to.")
    options = parser.parse_args()
    if not (options.source / TEMPLATE).is_file():
        parser.error(f"{options.source} has no {TEMPLATE}: it should be docs/live of a checkout")
    try:
        print(build(options.source, options.target))
    except OSError as refused:
        parser.error(f"{refused.filename}: {refused.strerror}")


if __name__ == "__main__":
    main()
