"""Pages in a real browser: no error, no request, all failures by keyboard, readable narrow and wide, light and dark."""

from itertools import pairwise

import pytest

from specsim.reports import render
from tests import browser
from tests.specsim.reports.planted import MARK, planted, with_planted_cases
from tests.specsim.reports.runs import RUNS

pytest.importorskip("playwright", reason="pages are opened with playwright")

open_page = browser.open_page

PAGES = (*RUNS, "bench")
LEAST_CONTRAST = 4.5
"""Of text and its ground, as WCAG 2 asks for letters of any size."""

FAINT = """() => {
    const channels = text => text.match(/[\\d.]+/g).map(Number);
    const linear = part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    const ground = element => {
        for (let one = element; one; one = one.parentElement) {
            const found = channels(getComputedStyle(one).backgroundColor);
            if (found.length === 3 || found[3] === 1) return found;
        }
    };
    const found = {};
    for (const element of document.querySelectorAll("body *:not(svg *)")) {
        const isText = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
        if (!isText || !element.checkVisibility()) continue;
        const colour = getComputedStyle(element).color;
        const [low, high] = [light(channels(colour)), light(ground(element))].sort((a, b) => a - b);
        found[`${element.tagName}.${element.className} ${colour}`] = (high + 0.05) / (low + 0.05);
    }
    return found;
}"""
"""The contrast of each kind of text with its ground."""

UNREACHED = """() => [...document.querySelectorAll(".scroll, .code")]
    .filter(one => one.scrollWidth > one.clientWidth && one.tabIndex < 0).map(one => one.outerHTML.slice(0, 200))"""
"""What scrolls, and no key scrolls it."""

UNNAMED = """() => [...document.querySelectorAll("[role=region], [role=img], section, article, nav")].filter(one => {
    const named = (one.getAttribute("aria-labelledby") || "").split(" ").map(id => document.getElementById(id));
    return !one.getAttribute("aria-label") && !named.some(other => other && other.textContent.trim());
}).map(one => one.outerHTML.slice(0, 200))"""
"""What a screen reader has no name for."""

HEADLESS = """() => [...document.querySelectorAll("table")].filter(one =>
    [...one.querySelectorAll("th")].some(head => !head.scope) || !one.querySelector("tbody th")
).map(one => one.outerHTML.slice(0, 200))"""
"""Tables whose cells belong to no header."""

FOCUSED = """() => {
    const one = document.activeElement;
    if (one === document.body) return "BODY";
    return `${one.getAttribute("role") || one.tagName} ${one.textContent.trim()}`;
}"""
"""What has the focus: its role or its element, and its text."""

REGIONS = "() => [...document.querySelectorAll('[role=region]')].filter(one => one.checkVisibility()).length"
LEVELS = "() => [...document.querySelectorAll('h1, h2, h3, h4, h5')].map(one => Number(one.tagName[1]))"
LOST = "() => [...document.querySelectorAll('details')].filter(one => !one.lastElementChild.checkVisibility()).length"
"""How many details show nothing of what is inside."""


@pytest.fixture
def page_of(found, open_page):
    """Return a function that opens the page of a run at a width; the page is closed after the test."""
    opened = []

    def page_of(name, width=1600, scheme="light"):
        opened.append(open_page(found[1] / f"{name}.html", width=width, scheme=scheme))
        return opened[-1]

    yield page_of
    for one in opened:
        one.page.close()


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1600, "light")])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_readable_and_asks_no_one(page_of, name, width, scheme):
    opened = page_of(name, width, scheme)
    page = opened.page
    assert (opened.errors, opened.requests) == ([], [])
    assert page.evaluate("document.documentElement.scrollWidth") == width, "only tables and pictures scroll sideways"
    assert opened.ending_after(width, "header, main, section, article, h1, h2, h3, h4, p, dl, summary, .scroll") == []
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate(UNREACHED) == page.evaluate(UNNAMED) == page.evaluate(HEADLESS) == []
    contrasts = page.evaluate(FAINT)
    assert len(contrasts) > 5
    assert {kind: ratio for kind, ratio in contrasts.items() if ratio < LEAST_CONTRAST} == {}
    levels = page.evaluate(LEVELS)
    assert levels.count(1) == 1 and all(later - level <= 1 for level, later in pairwise(levels))


def test_planted_markup_shows_as_text(documents, tmp_path, open_page):
    path = tmp_path / "planted.html"
    path.write_text(render("check", with_planted_cases(planted(documents["check"]), tmp_path)))
    opened = open_page(path, width=400)
    page = opened.page
    assert (opened.errors, opened.requests) == ([], [])
    assert page.locator("[data-planted], script").count() == 0
    text = page.evaluate("document.body.innerText")
    record = documents["check"]["failures"][0]
    for words in (record["property"], record["message"], record["replay"], "one_short"):
        assert f"{words}{MARK}" in text
    assert [one for one in page.locator("svg text").all_text_contents() if MARK in one] != []
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.close()


def test_every_failure_is_reached_by_keyboard(page_of, found):
    page = page_of("check").page
    reached = []
    for _ in range(200):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
        if reached[-1] == "BODY":
            break
    assert reached[0] == "A Skip to the results"
    for record in found[0]["check"]["failures"]:
        assert reached.count(f"A {record['property']}") == 2, "in the list, and at the head of what is said of it"
    assert reached.count("SUMMARY Traceback") == len(found[0]["check"]["failures"])
    assert sum(one.startswith("region") for one in reached) == page.evaluate(REGIONS)


def test_the_first_link_leads_past_the_contents_and_details_open_by_keyboard(page_of):
    page = page_of("check").page
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("details:not([open]) > summary").first.focus()
    before = page.evaluate(LOST)
    page.keyboard.press("Enter")
    assert page.evaluate(LOST) == before - 1


def test_paper_has_everything_but_the_contents(page_of):
    page = page_of("check").page
    assert page.evaluate(LOST) > 0
    page.emulate_media(media="print")
    assert page.evaluate(LOST) == 0, "what is folded on the screen is not on paper"
    assert not page.locator("nav").is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
