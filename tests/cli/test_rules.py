"""``specsim rules``: every row of the rules from the command line, and its two forms."""

import json
from dataclasses import asdict, fields

import click
import pytest

from specsim.cli.rules import rules
from specsim.properties.host.rules.rows import ROWS
from specsim.rules import ServerConfig, resolve

DEFAULTS = ServerConfig()
INVERTED = {"enable_spec_v2": "--disable-v2", "radix_cache": "--disable-radix-cache"}
CHOICES = {option.name for option in rules.params if isinstance(option.type, click.Choice)}
WITHOUT_OPTION = {"adaptive_config"}


def options_of(config):
    """Return a command line that gives the settings of a configuration that are not the default."""
    options = []
    for entry in fields(config):
        value = vars(config)[entry.name]
        if value == vars(DEFAULTS)[entry.name]:
            continue
        option = f"--{entry.name.replace('_', '-')}"
        if isinstance(value, bool):
            options.append(INVERTED.get(entry.name, option))
        else:
            options += [option, value]
    return options


def can_be_reported(config):
    """Return whether the command line can say the configuration, and fills no size in."""
    is_filled_in = config.topk is not None and config.num_draft_tokens is None
    return config.adaptive_config == DEFAULTS.adaptive_config and not is_filled_in


REPORTED = [row for row in ROWS if can_be_reported(row.config)]


@pytest.mark.parametrize("row", REPORTED, ids=lambda row: f"{row.section} {row.trigger}")
def test_row(specsim, row):
    got = specsim("rules", *options_of(row.config), "--json")
    if row.refused is not None:
        assert (got.exit_code, got.stdout) == (2, "")
        assert row.refused in got.stderr or row.refused.replace("_", "-") in got.stderr
        return
    assert (got.exit_code, got.stderr) == (0, "")
    document = json.loads(got.stdout)
    assert document["worker"] == row.worker
    assert [(reason["code"], reason["level"]) for reason in document["reasons"]] == [
        (code.value, level.value) for code, level in row.says
    ]
    expected = json.loads(json.dumps(asdict(row.config) | dict(row.changes)))
    assert document["config"] == expected


def test_most_rows_can_be_reported():
    assert len(REPORTED) > 0.9 * len(ROWS)


def test_every_setting_has_an_option():
    names = {option.name for option in rules.params} - {"as_json", "disable_v2", "disable_radix_cache"}
    assert names | INVERTED.keys() | WITHOUT_OPTION == {entry.name for entry in fields(ServerConfig)}
    assert {"mode", "state_strategy", "platform"} == CHOICES


def test_defaults_are_those_of_the_configuration(specsim):
    document = json.loads(specsim("rules", "--json").stdout)
    assert document["config"] == json.loads(json.dumps(asdict(DEFAULTS)))
    assert document["worker"] is None


def test_topk_alone_gets_steps_and_draft_tokens(specsim):
    got = specsim("rules", "--algorithm", "EAGLE", "--topk", 4, "--page-size", 64, "--json")
    document = json.loads(got.stdout)
    assert (got.exit_code, document["worker"]) == (0, "v1")
    assert "topk-needs-page-size-1" in [reason["code"] for reason in document["reasons"]]
    assert all(reason.keys() == {"code", "text", "level", "changed"} for reason in document["reasons"])
    assert [document["config"][name] for name in ("topk", "num_steps", "num_draft_tokens")] == [4, 5, 16]
    assert got.stderr.splitlines() == [
        "--num-steps is 5, because --topk is given alone",
        "--num-draft-tokens is 16, because a tree needs a number",
    ]


def test_small_trees_hold_every_candidate(specsim):
    got = specsim("rules", "--algorithm", "eagle", "--topk", 2, "--num-steps", 2, "--json")
    assert json.loads(got.stdout)["config"]["num_draft_tokens"] == 7


def test_a_plan_as_a_table(specsim):
    options = ["--algorithm", "EAGLE", "--topk", 2, "--num-steps", 3, "--num-draft-tokens", 6, "--recurrent"]
    got = specsim("rules", *options)
    assert (got.exit_code, got.stderr) == (0, "")
    plan = resolve(ServerConfig("EAGLE", 2, 3, 6, recurrent=True))
    lines = got.stdout.splitlines()
    assert lines[0] == "worker v1"
    for decision in plan.decisions:
        assert any(line.startswith(f"{decision.code.value} ") for line in lines)
    assert [line.split() for line in lines if line.startswith(("max_running", "recurrent "))] == [
        ["recurrent", "True", "the", "user"],
        ["max_running_requests", "48", "a", "rule"],
    ]


def test_an_overlapped_worker_says_so(specsim):
    assert specsim("rules", "--algorithm", "EAGLE").stdout.startswith("worker v2, overlapped\n")
    assert specsim("rules").stdout.startswith("worker none\n")


def test_a_refusal_is_one_line(specsim):
    got = specsim("rules", "--algorithm", "STANDALONE", "--dp-attention")
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr == (
        "specsim: BAD_CONFIGURATION: dp_attention is True, but should be False, or another algorithm, "
        "because a standalone draft model is not split over attention ranks\n"
    )
