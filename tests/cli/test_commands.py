import json
import re
import sys

import pytest

from specsim.cli.list import KINDS
from specsim.cli.output import EXIT_CODES
from specsim.installation import DISTRIBUTION, find_missing
from specsim.operations import RECORDS

COMMANDS = ("check", "simulate", "rules", "replay", "show", "mutants", "bench", "env")


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS)])
def test_help_prints_the_exit_codes(specsim, arguments):
    got = specsim(*arguments, "--help")
    assert got.exit_code == 0
    assert EXIT_CODES in words(got.stdout)


def test_env(specsim):
    got = specsim("env", "--json")
    document = json.loads(got.stdout)
    assert got.exit_code == 0
    assert document.keys() == {"versions", "platform", "device", "mode", "debug", "missing"}
    assert {"python", "specsim", "numpy"} <= document["versions"].keys()
    assert document["mode"] in ("interpreted", "compiled", "absent")
    assert document["versions"]["numpy"] in specsim("env").stdout


def test_env_says_what_is_missing(specsim, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert json.loads(specsim("env", "--json").stdout)["missing"] == {
        "specsim.campaigns.cluster": list(find_missing("cluster")),
        "specsim.gpu": [],
        "specsim.host.exposition": [],
        "specsim.checkpoints": list(find_missing("models")),
        "specsim.cli.benching.plots": list(find_missing("plots")),
        "specsim.properties": ["scipy"],
        "specsim.reports": list(find_missing("report")),
    }
    advice = f"specsim.properties needs scipy: pip install '{DISTRIBUTION}[properties]'"
    assert advice in words(specsim("env").stdout)
    got = specsim("check", "specsim.reference")
    assert (got.exit_code, got.stdout, got.stderr) == (
        4,
        "",
        advice.replace("specsim.properties", "specsim: the suite") + "\n",
    )


@pytest.mark.parametrize("name", RECORDS)
def test_show_an_operation(specsim, name):
    got = specsim("show", name)
    assert got.exit_code == 0
    for spec in (*RECORDS[name].contract.parameters, *RECORDS[name].contract.outputs):
        assert spec.name in got.stdout
    for folder in ("operations", "reference", "gpu", "properties/operations"):
        assert f"{folder}/" in got.stdout, f"{name} has no place in {folder}"


def test_show_a_host_function(specsim):
    got = specsim("show", "drafts_per_round")
    assert got.exit_code == 0, got.output
    assert got.stdout.startswith("drafts_per_round  (host function; metrics; semantics H.1)\n")
    assert "def drafts_per_round(" in got.stdout
    assert re.search(r"^host +drafts_per_round +\S*host/metrics\.py:\d+ *$", got.stdout, re.MULTILINE)


def test_show_a_sampler_without_coins_leads_to_the_record_of_its_operation(specsim):
    name = "chain_speculative_sampling"
    own, with_coins = (specsim("show", subject).stdout for subject in (f"{name}_without_coins", name))
    assert own.startswith(f"{name}_without_coins  (sampler without coins; acceptance; ")
    place = re.search(r"\S+operations/acceptance\.py:\d+", with_coins)
    assert place is not None and place.group() in own and not place.group().endswith(":1")
    assert "uniform_samples" in with_coins and "uniform_samples" not in own


def test_show_suggests(specsim):
    got = specsim("show", "verify_tree_gredy")
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr == (
        "specsim: verify_tree_gredy is neither an operation nor a case file; "
        "did you mean verify_tree_greedy or verify_tree_greedy_from_logits or verify_chain_greedy?\n"
    )


@pytest.mark.parametrize("command", ["show", "replay"])
@pytest.mark.parametrize("content", [None, "", "{}", "not JSON", '{"schema": "specsim.case/9"}'])
def test_an_unreadable_case_is_one_line(specsim, tmp_path, command, content):
    path = tmp_path / "case.json"
    if content is not None:
        path.write_text(content)
    got = specsim(command, path)
    assert (got.exit_code, got.stdout, got.stderr.count("\n")) == (2, "", 1)
    assert got.stderr.startswith(f"specsim: BAD_CASE_FILE: {path} is ")


def test_bench_needs_a_gpu(specsim, monkeypatch):
    from specsim.cli import bench

    monkeypatch.setattr(bench, "choose_device", lambda: "CPU, interpreted")
    got = specsim("bench")
    assert (got.exit_code, got.stdout) == (4, "")
    assert got.stderr == "specsim: latencies are measured on a GPU, and the device here is CPU, interpreted\n"


def test_list_prints_the_names_of_each_kind(specsim):
    counts = json.loads(specsim("list", "--json").stdout)
    assert counts.keys() == KINDS.keys()
    for kind, number in counts.items():
        document = json.loads(specsim("list", kind, "--json").stdout)
        names = [row["name"] for row in document[kind]]
        assert document.keys() == {kind} and len({*names}) == len(names) == number > 0
        title, *lines = specsim("list", kind).stdout.splitlines()
        assert title.startswith("name") and {*names} <= {line.partition("  ")[0] for line in lines}
    listed = {line.split()[0]: line.split()[1].replace(",", "") for line in specsim("list").stdout.splitlines()[1:6]}
    assert listed == {kind: str(number) for kind, number in counts.items()}
