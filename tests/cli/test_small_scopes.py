"""What ``specsim soak --exhaustive`` prints, and how it ends."""

import json

import pytest


def test_json(specsim):
    got = specsim("soak", "--exhaustive", "--max-states", 300, "--json")
    assert got.exit_code == 0, got.stdout
    document = json.loads(got.stdout)
    assert document["states"] >= 300
    assert document["states"] == document["transitions"] - document["merged"] + len(document["scopes"])
    named = {name: document[name] for name in ("verdict", "implementation", "exhausted", "failure")}
    assert named == {"verdict": "conforms", "implementation": "specsim.reference", "exhausted": False, "failure": None}


def test_what_was_seen_is_printed(specsim):
    lines = specsim("soak", "--exhaustive", "--max-states", 100).stdout.splitlines()
    assert lines[0].startswith("specsim.reference, ")
    assert any(line.startswith("two running V2 requests: ") for line in lines)
    assert lines[-1].startswith("conforms: ")


def test_the_shortest_history_to_a_failure_is_printed(specsim, tmp_path):
    (tmp_path / "leaky_memory.py").write_text(
        "from specsim.simulation import memory\n\n\n"
        "class SlotAllocator(memory.SlotAllocator):\n"
        "    def free(self, slots):\n"
        "        super().free(list(slots)[1:])\n"
    )
    got = specsim("soak", "leaky_memory", "--exhaustive")
    assert got.exit_code == 1
    assert "FAILURE: AssertionError: refusal of SlotAllocator.free = " in got.stdout
    assert "  1. admit request 0, which ends at 1 output tokens" in got.stdout


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [("--max-states", 10**9, "1 to 10,000,000"), ("--max-seconds", 0, "1 to 86,400")],
)
def test_counts_have_bounds_and_reasons(specsim, option, value, expected):
    got = specsim("soak", "--exhaustive", option, value)
    assert got.exit_code == 2
    assert got.stderr.startswith(f"specsim: {option} is {value}, but should be {expected}, because ")


def test_mutants_are_shown_to_small_scopes_alone(specsim):
    got = specsim("soak", "--mutants")
    assert got.exit_code == 2
    assert "--mutants needs --exhaustive" in got.stderr


def test_an_interrupt_ends_the_mutants(specsim, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("specsim.properties.suite.small_scopes.explore.Exploration.next_level", interrupt)
    got = specsim("soak", "--exhaustive", "--mutants")
    assert got.exit_code == 130
    assert got.stdout.splitlines()[-1] == "interrupted: 0 of 0 mutants die within 5 events, 0 survive"
