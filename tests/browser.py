"""A browser for the tests of what people look at. A module of tests gets it by ``open_page = browser.open_page``."""

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PLACES = ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome")
"""Where a Chromium is looked for; none is downloaded."""

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

OUTSIDE = """([width, selector]) => [...document.querySelectorAll(selector)].flatMap(element => {
    const box = element.getBoundingClientRect();
    return box.right > width + 0.5 ? [`${element.tagName} ${element.className} ends at ${box.right}`] : [];
})"""
"""The elements of a selector that reach past a width."""


@dataclass(frozen=True)
class Opened:
    """A page that is open, what its console said of errors and warnings, and what it asked of a network.

    ``page`` is playwright's, to click and to evaluate.
    """

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ending_after(self, width: float, selector: str = "body *") -> list[str]:
        """Return the elements that reach past so many pixels from the left."""
        found: list[str] = self.page.evaluate(OUTSIDE, [width, selector])
        return found


def chromium() -> str | None:
    """Return the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, PLACES)), None)


@contextmanager
def started():
    """Start a browser, and end it after use."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


# NOTE: playwright keeps an event loop in the thread until it stops, in which no other test could begin one of its own.
@pytest.fixture(scope="module")
def open_page():
    """Return a function that opens a file or an address in a page of its own.

    ``open_page(address, width=1600, height=900, scheme="light")`` returns an ``Opened``; ``address`` is a path or a
    URL, and ``scheme`` what the reader prefers, ``"light"`` or ``"dark"``.
    """
    if chromium() is None:
        pytest.skip(f"no Chromium is found at {PLACES[0]} or on PATH")
    with started() as browser:

        def opened(address: Path | str, width: int = 1600, height: int = 900, scheme: str = "light") -> Opened:
            url = address.resolve().as_uri() if isinstance(address, Path) else address
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            seen = Opened(page)
            page.on("console", lambda said: said.type in ("error", "warning") and seen.errors.append(said.text))
            page.on("pageerror", lambda error: seen.errors.append(str(error)))
            page.on("request", lambda asked: asked.url != url and seen.requests.append(asked.url))
            page.goto(url)
            return seen

        yield opened
