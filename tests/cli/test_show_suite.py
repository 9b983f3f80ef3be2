"""What ``specsim show`` prints of the suite: laws, faults and tests of an operation; one law, or one fault, in full."""

import json
import re
import subprocess
import sys

import pytest

from specsim.cli import suite
from specsim.conformance.catalogue import Kind, names_of
from specsim.operations.without_coins import SUFFIX
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.catalogue import all_properties, properties_by_name
from specsim.properties.suite.hunt.kills import read_kills

LAW = "tree.links_follow_the_flat_ids"
OPERATIONS = names_of(Kind.OPERATION, Kind.MODEL_OPERATION)
KILLS = read_kills(suite.ROOT / suite.RECORD)


def rows_of(text, section):
    """Return the rows of a table by the title that stands over it, each as its first column."""
    lines = text.partition(f"\n{section}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [line.partition("  ")[0] for line in lines if line[:1].strip()]


@pytest.mark.parametrize("name", names_of(*Kind))
def test_every_callable_has_a_law_a_fault_and_a_test(specsim, name):
    got = specsim("show", name)
    assert got.exit_code == 0, got.output
    laws, faults, tests = (rows_of(got.stdout, section) for section in ("laws", "faults", "tests"))
    assert laws == [one.name for one in all_properties() if name in one.operations] != []
    assert all(place.startswith(str(suite.ROOT / "tests")) for place in tests)
    assert tests or ("\ntests: none names it, and its laws are tests of it\n" in got.stdout and name not in OPERATIONS)
    if name.endswith(SUFFIX):
        assert f"\nfaults: those of {name.removesuffix(SUFFIX)}, of which it is a form\n" in got.stdout
    else:
        assert faults == [one.id for one in all_mutants() if one.operation == name] != []


def test_a_test_stands_where_a_test_file_names_the_operation(specsim):
    (place,) = [one for one in rows_of(specsim("show", "fill_bonus_tokens").stdout, "tests") if "/reference/" in one]
    path, _, line = place.rpartition(":")
    assert path.endswith("tests/reference/test_compact.py")
    with open(path, encoding="utf-8") as source:
        text = source.read().splitlines()[int(line) - 1]
    assert "fill_bonus_tokens" in text and "import" not in text


def test_a_law_says_what_it_states_calls_and_kills(specsim):
    got = specsim("show", "--law", LAW)
    assert got.exit_code == 0, got.output
    one = properties_by_name()[LAW]
    head, statement, _, operations, examples, place, *rest = got.stdout.splitlines()
    assert head == f"{LAW}  (P18: links and parents say the same, and every walk ends)"
    assert statement == one.law.__doc__.strip().partition("\n")[0]
    assert (operations, examples) == ("operations: build_tree", "examples: 8 by default")
    assert re.fullmatch(r"place: \S+properties/operations/tree/laws\.py:\d+", place)
    killed = rows_of(got.stdout, "faults that it kills, by the record")
    assert set(killed) == {name for name, row in KILLS.rows.items() if LAW in row.killers} != set()
    assert rest[-1] == f"specsim check --property {LAW}"


@pytest.mark.parametrize(
    ("killers", "victims", "expected"),
    [
        ((LAW,), {}, suite.ALONE),
        ((LAW, "other"), {}, suite.FIRST),
        (("other", LAW), {}, suite.TOO),
        (("other",), {LAW: "B07"}, suite.TOO),
        (("other",), {}, ""),
        ((), {}, ""),
    ],
)
def test_how_a_law_kills_is_the_order_of_the_killers(killers, victims, expected):
    kills = suite_kills({"B07": killers}, victims)
    assert suite._how_killed(LAW, kills, "B07") == expected


def suite_kills(killers, victims):
    from specsim.properties.suite.hunt.kills import Kills, Row

    return Kills({name: Row(20, (1,) * 20, those) for name, those in killers.items()}, victims)


def test_a_law_of_whole_runs_says_so(specsim):
    got = specsim("show", "--law", "engine.request_does_not_depend_on_its_neighbours")
    assert re.search(r"^examples: \d+ by default, each a whole run$", got.stdout, re.MULTILINE), got.output


def test_a_generated_property_says_what_all_of_its_kind_state(specsim):
    got = specsim("show", "--law", "mutation.fast_topk")
    assert got.stdout.startswith("mutation.fast_topk  (property)\nno argument changes but those that the table lets ")


def test_a_fault_says_where_it_comes_from_and_what_kills_it(specsim):
    got = specsim("show", "--fault", "B07")
    assert got.exit_code == 0, got.output
    lines, row = got.stdout.splitlines(), KILLS.rows["B07"]
    assert lines[:2] == ["B07  (fault of build_tree)", "A chain stops one node early."]
    place = next(line for line in lines if line.startswith("place: ")).removeprefix("place: ")
    path, _, number = place.rpartition(":")
    with open(path, encoding="utf-8") as source:
        assert "B07" in source.read().splitlines()[int(number) - 1]
    assert "report: NVIDIA/TensorRT-LLM #10325 (TensorRT-LLM)" in lines
    assert rows_of(got.stdout, "laws that kill it, the surest first, whole runs last")[: len(row.killers)] == [
        *row.killers
    ]
    first = f"first at example {min(row.examples)} to {max(row.examples)}, median {row.median:g}"
    assert f"killed with {row.seeds} of 20 seeds, {first}" in lines
    assert lines[-1] == "specsim mutants B07"


def test_a_fault_that_is_an_edit_says_what_it_replaces(specsim):
    printed = specsim("show", "--fault", "PV07").stdout
    head = "what stands in the correct fill_bonus_tokens (-), and what in the faulty one (+)\n"
    assert f"\n{head}- num_accepted_tokens[request] - 1\n+ 0\n" in printed
    printed = specsim("show", "--fault", "OWN-1150").stdout
    assert (
        "correct extend_holdings (-), and what in the faulty one (+)\n- return ranges\n+ return ranges[:-1]\n"
        in printed
    )


def test_every_fault_has_a_place():
    places = {one.id: suite._place_of_mutant(one) for one in all_mutants()[::23]}
    assert {name for name, place in places.items() if not (place.path.is_file() and place.line > 1)} == set()


def test_only_a_fault_that_was_reported_has_a_report():
    assert [suite._report_of(name) for name in ("R19", "OWN-01", "D16")] == [
        "ggml-org/llama.cpp #10641 (llama.cpp)",
        "none",
        "none",
    ]


def test_a_fault_of_a_loop_says_what_carries_it(specsim):
    carried = {one.id: suite._carrier_of(one) for one in all_mutants()}
    assert carried["B07"] == ""
    assert carried["OWN-1190"] == ", planted in scheduler"
    assert carried["OWN-1600"] == ", planted in worker V1"
    assert specsim("show", "--fault", "OWN-1600").stdout.startswith(
        "OWN-1600  (fault of verify_tree_greedy, planted in worker V1)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--law", "tree.links_follow_flat_ids"), f"tree.links_follow_flat_ids is no property; did you mean {LAW}?"),
        (("--law", "?"), "? is no property; specsim list properties prints all of them"),
        (("--fault", "B77"), "B77 is no mutant; did you mean B07?"),
        ((), "show takes one of these: an operation, a case file, --law NAME or --fault NAME"),
        (
            ("fast_topk", "--fault", "B07"),
            "show takes one of these: an operation, a case file, --law NAME or --fault NAME",
        ),
    ],
)
def test_a_wrong_name_is_one_line(specsim, arguments, message):
    got = specsim("show", *arguments)
    assert (got.exit_code, got.stdout, got.stderr) == (2, "", f"specsim: {message}\n")


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Let specsim be where a wheel installs it: beside a package that is called ``tests``, too."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_other.py").write_text("def test_fast_topk():\n    pass\n")
    monkeypatch.setattr(suite, "ROOT", tmp_path)


def test_an_installed_package_says_that_it_has_no_tests(specsim, installed):
    got = specsim("show", "fast_topk")
    assert got.exit_code == 0, got.output
    assert got.stdout.endswith("\ntests: a checkout of specsim has them, and an installed package has none\n")
    assert rows_of(got.stdout, "laws") and rows_of(got.stdout, "faults")


def test_an_installed_package_says_that_it_has_no_record(specsim, installed):
    law, fault = specsim("show", "--law", LAW), specsim("show", "--fault", "B07")
    assert (law.exit_code, fault.exit_code) == (0, 0), law.output + fault.output
    lacks = "is recorded in a checkout of specsim, and an installed package has no record\n"
    assert f"\nfaults: which it kills {lacks}" in law.stdout
    assert f"\nkilled by: what kills it {lacks}" in fault.stdout
    assert "\nreport: docs/mutants.md of a checkout of specsim has it, where there is one\n" in fault.stdout


def test_without_hypothesis_the_contract_and_the_tests_are_printed(specsim, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    got = specsim("show", "fast_topk")
    assert got.exit_code == 0, got.output
    assert "\nlaws and faults: the suite needs scipy: pip install " in got.stdout
    assert rows_of(got.stdout, "tests")
    assert specsim("show", "--law", LAW).exit_code == 4


def test_nothing_heavy_is_imported():
    code = (
        "import json, sys; from specsim.cli.main import main; main(['show', 'fast_topk'], standalone_mode=False);"
        "print(json.dumps([name for name in ('torch', 'triton', 'scipy') if name in sys.modules]))"
    )
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(got.stdout.splitlines()[-1]) == []
