"""Pages of documents: what they say, that a stranger's text stays text, and how long they get."""

import copy
import json
import re
from html.parser import HTMLParser

import pytest

from specsim.reports import COMMANDS, docs_beside, render
from specsim.reports.__main__ import main
from specsim.reports.failures import LEAST_FULL
from tests.specsim.reports.planted import planted, with_planted_cases
from tests.specsim.reports.runs import CELL, PROPERTIES, RUNS

PAGES = (*RUNS, "bench")
LIMIT = 2_000_000


class Read(HTMLParser):
    """What a page consists of: its elements, the ids and targets among their attributes, and its text."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.ids, self.targets, self.text = [], [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        self.ids += [given["id"]] if "id" in given else []
        self.targets += [given["href"]] if "href" in given else []

    def handle_data(self, data):
        self.text += data


def page_of(name, document):
    return render(document["command"], document, "https://docs.example/")


@pytest.mark.parametrize("name", PAGES)
def test_every_page_has_the_circumstances(documents, name):
    document = documents[name]
    read = Read(page_of(name, document))
    for words in (document["verdict"], document["again"], document["device"], *document["versions"].values()):
        assert words in read.text
    if "seed" in document:
        assert f"seed{document['seed']}" in re.sub(r"\s", "", read.text)
    inside = {target[1:] for target in read.targets if target.startswith("#")}
    assert inside <= set(read.ids) and len(read.ids) == len(set(read.ids))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_one_file_without_scripts(documents, name):
    page = page_of(name, documents[name])
    tags = {tag for tag, _ in Read(page).tags}
    assert not tags & {"script", "img", "iframe", "object", "embed", "base", "form", "audio", "video"}
    assert "url(" not in page and "@import" not in page
    loaded = [given["href"] for tag, given in Read(page).tags if tag == "link"]
    assert loaded == ["data:,"], "an icon that is asked for would be a request"
    assert not [name for _, given in Read(page).tags for name in given if name.startswith("on")]


def test_a_failure_has_its_law_its_picture_and_the_line_that_replays_it(documents):
    document = documents["check"]
    page = page_of("check", document)
    read = Read(page)
    assert [one["property"] for one in document["failures"]] == list(PROPERTIES[:2])
    for record in document["failures"]:
        assert record["replay"] in read.text and record["message"] in read.text
        assert " ".join(document["statements"][record["property"]]["states"].split()) in " ".join(read.text.split())
    assert page.count("<svg") == 2 and read.text.count("Expected beside got") == 2
    of_every = f"reference/laws.html#of-every-operation:~:text={PROPERTIES[0]}"
    law = f"reference/verify.html#verify-tree-greedy:~:text={PROPERTIES[1]}"
    assert {f"https://docs.example/{place}" for place in (of_every, law)} <= set(read.targets)
    beside = f"docs/reference/verify.md#verify_tree_greedy:~:text={PROPERTIES[1]}"
    assert beside in Read(render("check", document, "docs/")).targets
    assert [given.get("class") for tag, given in read.tags if tag == "mark"] != []
    assert "specsim show --law" not in read.text
    assert f"specsim show --law {PROPERTIES[0]}" in Read(render("check", document)).text


def test_known_failures_have_their_last_day(documents):
    (expected,) = documents["check"]["known"]["expected"]
    assert (expected["property"], expected["expires"]) == (PROPERTIES[2], "2999-12-31")
    read = Read(page_of("check", documents["check"]))
    assert "2999-12-31" in read.text and "https://example.org/1" in read.targets


def test_an_address_that_is_none_of_the_web_is_no_link(documents):
    document = copy.deepcopy(documents["check"])
    document["known"]["expected"][0]["link"] = "javascript:planted()"
    read = Read(page_of("check", document))
    assert "javascript:planted()" in read.text
    assert not [target for target in read.targets if "javascript" in target]


@pytest.mark.parametrize("name", PAGES)
def test_markup_of_a_stranger_is_text(documents, name, tmp_path):
    document = planted(documents[name])
    if name == "check":
        document = with_planted_cases(document, tmp_path)
    page = page_of(name, document)
    read = Read(page)
    assert not [given for _, given in read.tags if "data-planted" in given]
    assert "script" not in {tag for tag, _ in read.tags}
    assert read.text.count("planted()") >= {"check": 60, "bench": 15}.get(name, 10)
    assert tags_of(page) == tags_of(page_of(name, documents[name]))


def tags_of(page):
    """Return the elements of a page but those that depend on how long texts are, and how they are put together."""
    without_pictures = re.sub(r"<svg .*?</svg>", "", page, flags=re.DOTALL)
    return [tag for tag, _ in Read(without_pictures).tags if tag not in ("a", "wbr")]


def test_text_that_turns_the_line_around_is_spelt(documents):
    document = {**documents["bench"], "reasons": ["left \u202e right \x00 \ud800"]}
    assert "left \\u202e right \\x00 \\ud800" in Read(page_of("bench", document)).text


def test_a_page_of_a_thousand_failing_properties_is_short(documents):
    document = copy.deepcopy(documents["check"])
    record, name = document["failures"][0], document["failures"][0]["property"]
    names = [f"{name}.{number:04}.of_a_name_that_is_as_long_as_those_of_laws_are" for number in range(1000)]
    long = {"message": f"{record['message']} {'and more ' * 400}", "error": record["error"] * 20}
    document["failures"] = document["failure_records"] = [{**record, **long, "property": one} for one in names]
    document["properties"] = dict.fromkeys(names, document["properties"][name])
    document["statements"] = dict.fromkeys(names, document["statements"][name])
    document["groups"] = [{"operation": "verify_tree_greedy", "first": names[0], "properties": names, "loss": ""}]
    page = page_of("check", document)
    assert LEAST_FULL < len(page.encode()) < LIMIT
    assert [f' id="failure-{number}"' in page for number in range(1, 1001)] == [True] * 1000
    assert page.count(f"<code>{record['replay']}</code>") == 1000
    assert 10 < page.count("<svg") < 1000 and f"the last {1000 - page.count('<svg')} are short" in page


def test_a_case_that_is_gone_is_named_and_hides_nothing(documents, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    read = Read(page_of("check", documents["check"]))
    assert read.text.count("The case file cannot be read") == 2
    assert documents["check"]["failures"][0]["replay"] in read.text


def test_the_grid_has_who_kills_a_mutant_first_and_too(documents):
    row = documents["mutants"]["mutants"][0]
    killed = {**row, "id": "A", "killed_by": ["agreement.x", "tree.law"], "first_examples": [3]}
    alive = {**row, "id": "B", "killed_by": [], "first_examples": [None], "seeds": 0, "median": None}
    document = {**documents["mutants"], "mutants": [killed, alive], "survived": [{"id": "B", "seed": 1}]}
    cells = re.findall(r'<tr><th scope="row">([AB])<td class="left">(.*?)<td class="why">', page_of("", document), re.S)
    shown = {name: [re.sub("<[^>]*>", "", cell).strip() for cell in row.split("<td")] for name, row in cells}
    assert [one.split(">")[-1] for one in shown["A"]] == ["killed", "1", "3", "1", "+"]
    assert [one.split(">")[-1] for one in shown["B"]] == ["✗&nbsp;SURVIVES", "0", "", "", ""]


def test_thousands_of_mutants_are_a_light_page(documents):
    row = documents["mutants"]["mutants"][0]
    rows = [
        {**row, "id": f"OWN-{number}", "operation": f"operation_{number % 120}", "killed_by": [f"law.{number % 700}"]}
        for number in range(2400)
    ]
    page = page_of("mutants", {**documents["mutants"], "mutants": rows})
    assert page.count('<th scope="row">OWN-') == 2400 and len(page.encode()) < LIMIT


def test_a_soak_says_what_was_reached_how_often(documents):
    document = {**documents["soak"], "least": 5}
    read = Read(page_of("soak", document))
    for counts in (document["reach"], document["events"], document["sometimes"], document["reused_after"]):
        for name in counts:
            assert name in read.text
    words = {name: ("reached" if number >= 5 else "too seldom") for name, number in document["reach"].items()}
    assert set(words.values()) == {"reached", "too seldom"}
    text = re.sub(r"\s+", " ", read.text)
    for name, number in document["reach"].items():
        if name not in document["not_required"]:
            sign = "✓" if words[name] == "reached" else "✗"
            assert f"{name}{number:,}{sign} {words[name]}" in text


def test_a_matrix_has_its_cells_and_values(documents):
    read = Read(page_of("matrix", documents["matrix"]))
    assert CELL in read.text and "45 of 45 allowed pairs of values are covered" in read.text
    text = re.sub(r"\s+", " ", read.text)
    assert "worker v1 0 0" not in text and "worker v200" not in text
    for words in ("worker v211", "worker v100", "chunking on11", "chunking off00"):
        assert words in text.replace(" 0", "0")


@pytest.mark.parametrize(("name", "unit"), [("soak", "machine"), ("matrix", "history")])
def test_a_run_of_an_engine_that_fails_has_its_shortest_history(documents, name, unit):
    document = documents[name]
    page = page_of(name, document)
    read = Read(page)
    record = next(one for one in document["failure_records"] if one["history"])
    for words in (record["replay"], record["message"], *record["history"]):
        assert words in read.text
    assert f"{record['property']}, {unit} {record['example']}" in read.text
    assert read.text.count("Shortest history of") == sum(
        one["history"] is not None for one in document["failure_records"]
    )
    assert not [target for target in read.targets if "docs.example" in target], "it is no law of the catalogue"


def test_charts_have_axes_with_units_and_say_their_numbers(documents):
    page = page_of("bench", documents["bench"])
    assert page.count("<polyline") == 2 * 4 and page.count('class="value"') == 6
    assert page.count(">µs</text>") == 4 and page.count(">requests</text>") == 2
    (words,) = re.findall(r'aria-label="(build_tree\. specsim: [^"]*)"', page)
    assert words.startswith("build_tree. specsim: 2.02 µs at 1, 3.00 µs at 64, 18.00 µs at 1,024; floor: 1.70 µs at 1")


def test_commands_have_a_page_each():
    assert set(COMMANDS) == {"check", "mutants", "matrix", "soak", "bench"}


def test_a_stored_document_is_made_into_the_page_that_the_run_wrote(documents, found, capsys, monkeypatch):
    folder = found[1]
    (folder / "stored.json").write_text(json.dumps(documents["matrix"]))
    assert main(["stored.json"]) == 0
    assert capsys.readouterr().out == (folder / "matrix.html").read_text()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        ("[1", "it is no document of specsim (JSONDecodeError: Expecting ',' delimiter: line 1 column 3 (char 2))"),
        ("[]", "it is no document of specsim (TypeError: list indices must be integers or slices, not str)"),
        ('{"command": "env"}', "its command is 'env', but should be one of check, mutants, matrix, soak, bench"),
        ('{"command": "check", "verdict": "fails"}', "it is no document of specsim (KeyError: 'conclusion')"),
    ],
)
def test_what_is_no_document_is_one_line(tmp_path, capsys, content, why):
    path = tmp_path / "stored.json"
    if content is not None:
        path.write_text(content)
    assert main([str(path)]) == 2
    assert capsys.readouterr() == ("", f"specsim.reports: {path}: {why}\n")


def test_links_lead_where_the_user_says_and_else_to_this_checkout(monkeypatch, tmp_path):
    docs = tmp_path / docs_beside(tmp_path)
    assert (docs / "reference" / "laws.md").is_file()
    monkeypatch.setenv("SPECSIM_DOCS", "https://docs.example/specsim")
    assert docs_beside(tmp_path) == "https://docs.example/specsim/"
