"""The documentation does what it says."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from specsim.cli.main import main
from specsim.cli.simulating.algorithms_page import page as algorithms_page
from specsim.conformance.page import page as host_page
from specsim.operations import MODEL_TABLE, RECORDS
from specsim.properties.mutants import all_mutants
from specsim.properties.property import FEWEST_FOR_WEIGHTY
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.hunt.kills import read_kills
from specsim.properties.suite.hunt.page import page as mutants_page
from specsim.properties.suite.pages import anchor_of, place_of, written
from specsim.properties.suite.statements import KINDS
from specsim.reports.engines import page as engines_page
from specsim.reports.engines import read_results
from specsim.vectors.pictures import pictures

ROOT = Path(__file__).parents[1]
KILLS = ROOT / "tests" / "properties" / "mutants" / "kills.json"
EXAMPLE = ROOT / "docs" / "examples" / "my_kernels.py"
WORDS_A_MINUTE = 240
"""How fast prose is read; code goes slower, and who only wants the job needs the first third of the first page."""
DEFINED = {"per_step_draft_out_cache_loc", "fill_bonus_tokens", "fill_accept_out_cache_loc"}
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


QUICK_LOOK = ("--examples", str(FEWEST_FOR_WEIGHTY - 1), "--slow-examples", "1")
"""Everything but the properties that are as long as many others: test_kernels_ci.py runs those of the same module."""


@pytest.fixture
def specsim(tmp_path, monkeypatch):
    """Return a function that runs a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda *arguments: CliRunner().invoke(main, arguments)


def test_the_example_conforms(specsim, tmp_path):
    (tmp_path / "my_kernels.py").write_text(EXAMPLE.read_text())
    got = specsim("check", "my_kernels", *QUICK_LOOK, "--seed", "1", "--json")
    assert got.exit_code == 0, got.output
    report = json.loads(got.stdout)
    assert (report["verdict"], report["implementation"], report["seed"]) == ("conforms", "my_kernels", 1)
    assert {name for name, entry in report["operations"].items() if not entry["missing"]} == DEFINED
    for name, entry in report["operations"].items():
        assert entry["failures"] == 0
        assert (entry["examples"] > 0) == (name in DEFINED)


def test_the_broken_example_fails_and_its_case_replays(specsim, tmp_path):
    good = EXAMPLE.read_text()
    bad = good.replace("num_accepted_tokens[:, None] - 1", "num_accepted_tokens[:, None] % accept_tokens.shape[1]")
    assert bad != good
    (tmp_path / "my_kernels.py").write_text(bad)
    got = specsim("check", "my_kernels", "--seed", "1", *QUICK_LOOK, "--operation", "fill_bonus_tokens")
    assert got.exit_code == 1, got.output
    assert "FAILURE of fill_bonus_tokens: agreement.fill_bonus_tokens" in got.stdout
    assert "first difference from the reference: bonus_tokens[0] = " in got.stdout
    assert got.stdout.splitlines()[-1].startswith("fails: ")
    (line, *_) = re.findall(r"specsim (replay \S+ --impl \S+)", got.stdout)
    path = line.split()[1]
    assert specsim(*line.split()).stdout.startswith(f"x FAILED  {path}")
    (tmp_path / "my_kernels.py").write_text(good)
    repaired = specsim(*line.split())
    assert (repaired.exit_code, repaired.stdout.split()[:2]) == (0, ["+", "FIXED"])


def test_a_failure_is_explained_as_the_page_shows(specsim, tmp_path):
    page = (ROOT / "docs" / "check-your-kernels.md").read_text()
    (line,) = re.findall(r"^\$ specsim (check one_short .*)$", page, re.MULTILINE)
    (shown,) = re.findall(r"^```\n(FAILURE of verify_tree_greedy.*?)^```$", page, re.MULTILINE | re.DOTALL)
    shutil.copy(EXAMPLE.with_name("one_short.py"), tmp_path)
    got = specsim(*line.split())
    assert got.exit_code == 1, got.output
    (printed,) = re.findall(r"^(FAILURE of verify_tree_greedy.*?)^$", got.stdout, re.MULTILINE | re.DOTALL)
    assert without_what_is_drawn(printed) == without_what_is_drawn(shown)


@pytest.mark.parametrize(
    ("page", "module", "function"),
    [
        ("schedules.md", "drawn_token", "choose_verify_lens"),
        ("drawn-drafts.md", "base_rows", "walk_markov_drafts"),
        ("stages.md", "untrimmed_stage", "PipelineStage"),
    ],
)
def test_a_function_of_the_host_is_judged_as_its_page_shows(specsim, tmp_path, page, module, function):
    text = (ROOT / "docs" / page).read_text()
    (line,) = re.findall(rf"^\$ specsim (check {module} .*)$", text, re.MULTILINE)
    (shown,) = re.findall(rf"^```\n(FAILURE of {function}.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shutil.copy(EXAMPLE.with_name(f"{module}.py"), tmp_path)
    got = specsim(*line.split())
    assert got.exit_code == 1, got.output
    (printed,) = re.findall(rf"^(FAILURE of {function}.*?)^$", got.stdout, re.MULTILINE | re.DOTALL)
    assert re.sub(r"\d+", "#", printed) == re.sub(r"\d+", "#", shown)


def test_the_fault_of_the_tutorial_is_reported_in_the_same_words(specsim, tmp_path):
    """The case itself is another one with other releases, and with other modules loaded."""
    text = (ROOT / "docs" / "tutorial.md").read_text()
    (line,) = re.findall(r"^\$ specsim (check one_coin .*)$", text, re.MULTILINE)
    (shown,) = re.findall(r"^```\n(FAILURE of .*?)^```$", text, re.MULTILINE | re.DOTALL)
    shutil.copy(EXAMPLE.with_name("one_coin.py"), tmp_path)
    got = specsim(*line.split())
    assert got.exit_code == 1, got.output
    (printed,) = re.findall(r"^(FAILURE of .*?)^$", got.stdout, re.MULTILINE | re.DOTALL)
    words_of_printed, words_of_shown = (
        list(dict.fromkeys(" ".join(re.findall(r"[A-Za-z_]{3,}", one)) for one in report.splitlines()))
        for report in (re.sub(r"-[0-9a-f]{16}(?=\.json)", "", printed), shown)
    )
    assert words_of_printed == words_of_shown


def test_the_fault_of_the_tutorial_is_mended_as_it_says(specsim, tmp_path):
    faulty = EXAMPLE.with_name("one_coin.py").read_text()
    mended = faulty.replace("                coin = uniform_samples[place]\n", "")
    *_, line = blocks_of("tutorial.md")
    mended = re.sub(r"^    return int\(np.searchsorted.*\n", line, mended, flags=re.MULTILINE)
    (tmp_path / "one_coin.py").write_text(mended)
    got = specsim("check", "one_coin", "--seed", "1", "--operation", "chain_speculative_sampling", *QUICK_LOOK)
    assert got.exit_code == 0, got.output


def without_what_is_drawn(report):
    """Leave tokens and names of cases open, which another release of Hypothesis draws otherwise."""
    report = re.sub(r"\d+(?=[],] | -> )|(?<=-> )\d+|(?<= \[\[)[-\d, ]+", "#", report)
    return re.sub(r"replay \S+.*", "replay", report)


def test_the_pages_of_the_reference_are_those_of_the_tables():
    pages = written(ROOT / "docs")
    assert len(pages) > 30
    stale = [path.name for path, text in pages.items() if text != path.read_text()]
    assert not stale, "run: python -m specsim.properties.suite.pages docs"


def test_the_pictures_of_the_reference_are_those_of_its_calls():
    reference = ROOT / "docs" / "reference"
    stale = [path.name for path, text in pictures(reference).items() if not path.exists() or text != path.read_text()]
    assert not stale, "run: python -m specsim.vectors.pictures docs/reference"


def test_every_law_is_listed_where_a_report_links_it():
    texts = {}
    for one in all_properties():
        page, _, heading = place_of(one).partition("#")
        text = texts.setdefault(page, (ROOT / "docs" / page).read_text(encoding="utf-8"))
        headings = [anchor_of(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")]
        assert heading in headings, one.name
        kind = one.name.partition(".")[0]
        assert f"| `{one.name}` |" in text or f"| `{kind}.<operation>` |" in text, one.name


def test_every_operation_stands_on_a_page_of_its_own_group():
    for name, record in RECORDS.items():
        page = "models" if name in MODEL_TABLE else record.group
        text = (ROOT / "docs" / "reference" / f"{page}.md").read_text()
        assert f"<!-- {name}: begin, written by make generate -->" in text


def test_the_page_of_host_functions_is_that_of_the_catalogue():
    written = (ROOT / "docs" / "host-functions.md").read_text()
    assert written == host_page(), "run: python -m specsim.conformance.page > docs/host-functions.md"


def test_every_number_of_a_property_is_explained():
    assert {one.catalogue for one in all_properties()} - {""} == set(KINDS)


def test_the_page_of_engines_is_that_of_stored_results():
    results = read_results(ROOT / "docs" / "results")
    assert len({one.adapter for one in results}) >= 3
    written = (ROOT / "docs" / "engine-matrix.md").read_text()
    assert written == engines_page(results), "run: make generate"


def test_the_page_of_algorithms_is_that_of_the_licence():
    written, text = (ROOT / "docs" / "algorithms.md").read_text(), ROOT / "LICENSE"
    because = "run: python -m specsim.cli.simulating.algorithms_page LICENSE > docs/algorithms.md"
    assert written == algorithms_page(text.read_bytes(), text.name), because


def test_the_page_of_mutants_lists_who_dies_latest():
    written, kills = (ROOT / "docs" / "mutants.md").read_text(), read_kills(KILLS)
    because = f"run: python -m specsim.properties.suite.hunt.page {KILLS.relative_to(ROOT)} docs/mutants.md"
    assert written == mutants_page(written, kills), because


def test_every_real_fault_has_its_thread():
    written = (ROOT / "docs" / "mutants.md").read_text()
    made_here = ("OWN", "SYN", "WRITE", "STRIDE", "EMPTY", "FRESH", "CHECK", "CRASH", "ALIAS")
    real = [mutant.id for mutant in all_mutants() if not mutant.id.startswith(made_here)]
    assert [name for name in real if not re.search(rf"^\| `{name}` \| .* #\d+ \|$", written, re.MULTILINE)] == []


def test_the_page_quotes_the_example():
    quoted = (ROOT / "docs" / "check-your-kernels.md").read_text()
    (block,) = re.findall(r"```python\n(import numpy.*?)```", quoted, flags=re.DOTALL)
    body = block.partition("def ")[2].strip()
    assert body in EXAMPLE.read_text()


def test_the_way_to_a_job_in_continuous_integration_is_read_in_ten_minutes():
    words = [len((ROOT / page).read_text().split()) for page in ("README.md", "docs/check-your-kernels.md")]
    assert sum(words) <= 10 * WORDS_A_MINUTE, words


def test_what_is_written_by_hand_stays_short():
    """Words are tokens with a letter, outside of code, addresses, the changelog, and what is generated."""
    generated = {"engine-matrix.md", "host-functions.md", "algorithms.md", "semantics.md"}
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name not in generated]
    count = 0
    for page in [*pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = page.read_text(encoding="utf-8")
        for left_out in (r"<!-- ([^>]*): begin, written by .*?<!-- \1: end -->", r"```.*?```", r"\]\([^)]*\)"):
            text = re.sub(left_out, "", text, flags=re.DOTALL)
        count += sum(re.search("[A-Za-z]", word) is not None for word in text.split())
    assert count <= 55_000, count


def test_the_site_leads_to_a_job_in_continuous_integration_within_1500_words():
    front, _, _ = (ROOT / "docs" / "README.md").read_text().partition("## Learn")
    page, _, rest = (ROOT / "docs" / "check-your-kernels.md").read_text().partition("## In continuous integration")
    assert "(check-your-kernels.md)" in front
    assert len(f"{front} {page} {rest.partition('## ')[0]}".split()) <= 1500


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), flags=re.DOTALL)


def test_the_page_of_models_quotes_the_transformer():
    example = (ROOT / "docs" / "examples" / "my_transformer.py").read_text()
    *quoted, _ = blocks_of("bring-your-model.md")
    assert len(quoted) == 3
    assert [block for block in quoted if block not in example] == []


def test_the_transformer_of_the_page_runs_without_loss(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    exec(blocks_of("bring-your-model.md")[-1], {})
    lossless, num_tokens, rate = capsys.readouterr().out.split()
    assert (lossless, num_tokens) == ("True", "11")
    assert 1 < float(rate) < 4


def test_links_lead_somewhere():
    broken = [
        f"{path.relative_to(ROOT)} links to {target}"
        for path in PAGES
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text())
        if not (path.parent / target).exists()
    ]
    assert not broken, "\n".join(broken)


def test_links_lead_to_headings():
    headings = {path: {anchor_of(one) for one in HEADING.findall(path.read_text())} for path in PAGES}
    broken = [
        f"{path.relative_to(ROOT)} links to {target}#{anchor}"
        for path in PAGES
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", path.read_text())
        if anchor not in headings.get((path.parent / target).resolve() if target else path, {anchor})
    ]
    assert not broken, "\n".join(broken)
