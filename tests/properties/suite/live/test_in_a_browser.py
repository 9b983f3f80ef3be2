"""The live page in a real browser: its figures, its keys, its widths, and what it asks of a network."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from specsim.properties.host.noise.keyed_walks import Keys, expected_law, law_of_keys, rejection_sampling
from specsim.properties.host.noise.races import total_variation
from specsim.properties.host.schedules.exact_law import Form, joint_law
from specsim.properties.host.schedules.examples import best, drawn, schedule_of
from specsim.properties.strategies.sampling_scenes import TreeScene
from specsim.properties.suite.live import schedulers, streams, trees
from specsim.properties.suite.live.__main__ import build
from specsim.topology import Topology
from tests import browser

open_page = browser.open_page

SOURCE = Path(__file__).parents[4] / "docs" / "live"
DONE = "#agreement.agree, #agreement.differ"
LOOKS = [(width, scheme) for width in (400, 1600) for scheme in ("light", "dark")]
NUM_FIGURES = 3934

CHECKED = """(tables) => new Promise((done) => {
    const place = document.createElement("output");
    new MutationObserver(() => done(place.textContent)).observe(place, { childList: true });
    checkTables(tables, place);
})"""
"""What the page's own check says of some tables."""

FOCUS = """() => {
    const focused = document.activeElement;
    const marked = focused.closest(".pills label")?.lastElementChild ?? focused;
    return {
        place: [...document.querySelectorAll("*")].indexOf(focused),
        what: focused.outerHTML.slice(0, 99),
        outline: focused === document.body ? "auto" : getComputedStyle(marked).outlineStyle,
    };
}"""
"""What has the focus, and how it is outlined, or what stands for a button that is not drawn."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(SOURCE, tmp_path_factory.mktemp("site") / "live")


@pytest.fixture(scope="module")
def opened(open_page, built):
    """The page, at rest, as it is at first."""
    opened = open_page(built)
    opened.page.wait_for_selector(DONE)
    yield opened
    assert (opened.errors, opened.requests) == ([], [])


def headlines(opened, exhibit):
    """Return the large figures of an exhibit, as the fractions that they are."""
    found = opened.page.locator(f"#{exhibit} .headline .figure")
    return [found.nth(place).get_attribute("title") for place in range(found.count())]


def set_sliders(opened, scope, values):
    """Set the sliders of a part of the page, in their order."""
    sliders = opened.page.locator(f"{scope} input[type=range]")
    for place, value in enumerate(values):
        sliders.nth(place).fill(str(value))


def choose(opened, name, value):
    opened.page.locator(f'input[name="{name}"][value="{value}"]').check()


def test_the_script_computes_every_figure_of_the_tables(opened):
    assert opened.page.inner_text("#agreement") == f"{NUM_FIGURES:,} of {NUM_FIGURES:,} figures agree."


def test_a_figure_that_differs_is_named(opened):
    tables = json.loads(opened.page.locator("#tables").inner_text())
    schedules, name = tables["schedules"], "ties by drawn value, budget 3"
    tabulated = [entry for entry in schedules["tabulated"] if entry["name"] == name]
    tabulated[0]["laws"][0]["distance"] = "1667/28801"
    few = {
        "trees": {**tables["trees"], "scenes": []},
        "schedules": {**schedules, "tabulated": tabulated, "moved": schedules["moved"][:1]},
        "streams": {"entries": []},
    }
    said = opened.page.evaluate(CHECKED, few)
    agreed, count = map(int, re.findall(r"\d+(?= of| figures)", said))
    assert agreed == count - 1
    assert said == (
        f"{agreed} of {count} figures agree. First: distance of {name}, form 0 = 1667/28800, but the table has"
        " 1667/28801."
    )


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_page_fits_and_asks_nothing_of_a_network(opened, width, scheme):
    opened.page.set_viewport_size({"width": width, "height": 900})
    opened.page.emulate_media(color_scheme=scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.ending_after(width, "main > *, .exhibit > *, .bench > *, .controls *, .stage *, svg *, .scroll") == []
    assert (opened.errors, opened.requests) == ([], [])
    paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(247, 246, 242)", "dark": "rgb(20, 23, 28)"}[scheme]


def test_the_figures_of_the_semantics_come_out(opened):
    choose(opened, "form", 0)
    assert headlines(opened, "schedulers") == ["0", "1/9", "1/12"]
    set_sliders(opened, "#schedulers .group:nth-of-type(3)", [3])
    assert headlines(opened, "schedulers") == ["0", "1/400", "1/12"]
    for form in (1, 3, 4):
        choose(opened, "form", form)
        assert headlines(opened, "schedulers") == ["0", "0", "0"]
    choose(opened, "form", 2)
    assert headlines(opened, "schedulers") == ["0", "1/400", "1/12"]


def test_sliders_of_schedulers_show_what_the_suite_computes_there(opened):
    parts, budget, least = (17, 44, 5, 21, 33, 58), 3, Fraction(21, 10)
    choose(opened, "form", 2)
    for number in (1, 2):
        set_sliders(opened, f"#schedulers .group:nth-of-type({number})", parts[3 * number - 3 : 3 * number])
    set_sliders(opened, "#schedulers .group:nth-of-type(3)", [budget, int(least * 10)])
    scenes = schedulers.setting(parts)
    chosen = best(scenes, budget), best(scenes, budget, drawn), best(scenes, lambda total: 2 if total >= least else 0)
    expected = [str(joint_law(scenes, schedule_of(scenes, one), Form.BLOCK).distance) for one in chosen]
    assert expected[0] == "0" and "0" not in expected[1:]
    assert headlines(opened, "schedulers") == expected


def test_sliders_of_streams_show_what_the_suite_computes_there(opened):
    p, q = (3, 11, 6), (9, 1, 4)
    set_sliders(opened, "#streams .controls > div", [*p, *q])
    for fault in (streams.RECOVERY, streams.BONUS, streams.COIN, streams.FRESH):
        choose(opened, "sharing", fault)
        scene = streams.scene_of(fault, streams.row_of(p), streams.row_of(q))
        law = law_of_keys(rejection_sampling, (scene,), Keys(streams.keys_of(fault)))
        expected = expected_law((scene,))
        first = total_variation(streams.first_token(law), streams.first_token(expected))
        assert headlines(opened, "streams") == [str(first), str(total_variation(law, expected))]


def test_sliders_of_trees_show_what_the_suite_computes_there(opened):
    choose(opened, "tree", "one branch")
    set_sliders(opened, "#tree .group:last-of-type", (3, 4, 1))
    parents, tokens = trees.TREES["one branch"]
    first = next(scene for name, scene in trees.scenes() if name == "one branch")
    root = tuple(Fraction(part, 8) for part in (3, 4, 1))
    scene = TreeScene(Topology.from_parents(parents), tokens, (root, *first.rows[1:]), first.num_steps)
    for fault in ("SYN6", "OWN-261", "OWN-275", ""):
        choose(opened, "fault", fault)
        bias = trees.bias_of(scene, trees.exact_law(trees.samplers()[fault], scene))
        assert headlines(opened, "tree") == [str(bias)]
        assert bool(bias) == bool(fault)
    outputs = opened.page.locator("#tree .law tbody th").all_inner_texts()
    assert outputs == ["0 0", "0 1 0", "0 1 1", "0 1 2", "0 2 0", "0 2 1", "1 1", "1 2", "2"]


def test_coins_draw_the_accepted_path_and_what_changes_is_announced(opened):
    choose(opened, "tree", "chain")
    for fault, expected in (("", "accepts no draft and draws 0"), ("V28", "accepts 1 0 and draws 1")):
        choose(opened, "fault", fault)
        sliders = opened.page.locator("#tree .group:nth-of-type(3) input[type=range]")
        for place in range(sliders.count()):
            sliders.nth(place).fill("30")
        opened.page.wait_for_timeout(500)
        assert opened.page.inner_text("#tree .status").endswith(f"With these coins the walk {expected}.")
        assert opened.page.locator("#tree svg .node.accepted").count() == (1 if fault == "" else 3)


def test_all_controls_are_reached_and_moved_by_keys(opened):
    """Each Tab goes on to the next control; of radio buttons of one name to the chosen one, and arrows choose."""
    page = opened.page
    for tree in ("chain", "two branches"):
        choose(opened, "tree", tree)
    page.evaluate("document.activeElement.blur()")
    expected = page.evaluate(
        """() => [...document.querySelectorAll("a, input, select, button, summary, .scroll")].filter(
            (one) => one.checkVisibility() && (one.type !== "radio" || one.checked)).length"""
    )
    reached = set()
    page.keyboard.press("Tab")
    while (focus := page.evaluate(FOCUS))["place"] not in reached:
        reached.add(focus["place"])
        assert focus["outline"] in ("solid", "auto"), focus
        page.keyboard.press("Tab")
    assert len(reached) - 1 == expected, "all controls, and the page itself"
    choose(opened, "fault", "")
    page.locator('input[name="fault"]:checked').focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    assert page.locator('input[name="fault"]:checked').get_attribute("value") == "SYN6"
    assert headlines(opened, "tree") == ["7/32"]
    page.locator("#tree .group:last-of-type input[type=range]").first.focus()
    page.keyboard.press("ArrowRight")
    assert headlines(opened, "tree") != ["7/32"]


def test_the_tables_are_there_without_the_script(opened, built):
    context = opened.page.context.browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(built.resolve().as_uri())
    assert page.locator("table").count() == 3
    assert all(page.locator("table").nth(place).is_visible() for place in range(3))
    assert not page.locator(".controls").first.is_visible()
    assert page.locator("#schedulers tbody tr").filter(has_text="ties by drawn value, budget 3").inner_text().split()[
        -5:
    ] == ["1667/28800", "0", "31/320", "0", "0"]
    context.close()


def test_text_stands_out_from_what_it_stands_on(built):
    """Every colour of text has a contrast of 4.5 to the paper, the cards and the soft surface, in both schemes."""
    style = (SOURCE / "live.css").read_text(encoding="utf-8")
    schemes = re.split(r"@media \(prefers-color", style)[:2]
    light, dark = (dict(re.findall(r"--(\w[\w-]*): (#\w{6})", scheme)) for scheme in schemes)
    for colours in (light, dark):
        for text in ("ink", "dim", "emitted", "more", "less", "right"):
            for surface in ("paper", "card", "soft", *([f"{text}-soft"] if f"{text}-soft" in colours else [])):
                assert contrast(colours[text], colours[surface]) >= 4.5, (text, surface, json.dumps(colours))


def contrast(one, other):
    def luminance(colour):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
