"""What ``specsim mutants`` prints and records, and how it ends."""

import json

import pytest

from specsim.cli import mutants as mutants_command
from specsim.conformance.limits import NO_LIMITS
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.hunt import matrix
from specsim.properties.suite.hunt.hunt import Kill
from specsim.properties.suite.hunt.kills import Kills, Row, read_kills, write_kills
from specsim.properties.suite.hunt.limits import write_unseen
from specsim.properties.suite.hunt.matrix import Matrix

A, B = Kill("tree.a", 2), Kill("tree.b", 1)
OF_ONE_SEED = Matrix((5,), {"B03": ((A, B),), "PV07": ((),)}, ("tree.c",))
OF_TWO_SEEDS = Matrix((0, 1), {"B03": ((A,), (Kill("tree.b", 7),)), "PV07": ((B,), ())}, ())
KILLED = Matrix((5,), {"B03": ((A,),)}, ("tree.c",))

B03, PV07 = ({"operation": one.operation, "summary": one.summary} for one in all_mutants() if one.id in ("B03", "PV07"))
CIRCUMSTANCES = {"command", "conclusion", "again", "device", "versions"}


@pytest.fixture
def asked(monkeypatch):
    """Replace the hunt; what it is asked for is kept in a list, whose last entry is what it finds."""
    options = []

    def kill_matrix(**given):
        found = options.pop()
        options.append(given)
        return found

    monkeypatch.setattr(matrix, "kill_matrix", kill_matrix)
    return options


def test_json(specsim, asked):
    asked.append(OF_ONE_SEED)
    got = specsim("mutants", "--json", "--seed", 5)
    assert got.exit_code == 1
    document = json.loads(got.stdout)
    assert {key: value for key, value in document.items() if key not in CIRCUMSTANCES} == {
        "total": 2,
        "killed": 1,
        "seed": 5,
        "seeds": [5],
        "mutants": [
            {"id": "B03", "killed_by": ["tree.a", "tree.b"], "seeds": 1, "first_examples": [1], "median": 1, **B03},
            {"id": "PV07", "killed_by": [], "seeds": 0, "first_examples": [None], "median": None, **PV07},
        ],
        "survivors": ["PV07"],
        "survived": [{"id": "PV07", "seed": 5}],
        "powerless": ["tree.c"],
        "verdict": "fails",
        "inconclusive_because": [],
    }


def test_json_of_several_seeds(specsim, asked):
    asked.append(OF_TWO_SEEDS)
    got = specsim("mutants", "--json", "--seeds", 2)
    document = json.loads(got.stdout)
    assert got.exit_code == 1
    assert document["seeds"] == [0, 1]
    assert document["mutants"][0] == {
        "id": "B03",
        "killed_by": ["tree.a", "tree.b"],
        "seeds": 2,
        "first_examples": [2, 7],
        "median": 4.5,
        **B03,
    }
    assert document["survived"] == [{"id": "PV07", "seed": 1}]


def test_table(specsim, asked):
    asked.append(KILLED)
    got = specsim("mutants", "--seed", 5)
    assert got.exit_code == 0
    assert got.stdout.splitlines()[0] == "seed 5"
    assert "powerless: tree.c kills no mutant" in got.stdout
    assert got.stdout.splitlines()[-1] == "1 of 1 mutants killed, seed 5"
    assert mutants_command.SHOWN_PROPERTIES == 3


def test_table_of_several_seeds(specsim, asked):
    asked.append(OF_TWO_SEEDS)
    lines = specsim("mutants", "--seeds", 2).stdout.splitlines()
    rows = [line.split() for line in lines]
    assert ["B03", "2", "2", "to", "7,", "median", "4.5", "2", "tree.a,", "tree.b"] in rows
    assert ["PV07", "1", "1", "1", "tree.b"] in rows
    assert lines[-2:] == ["survivor: PV07 lives with seed 1", "1 of 2 mutants killed, seeds 0 to 1"]


def test_seeds_examples_and_processes_are_handed_on(specsim, asked):
    asked.append(KILLED)
    specsim("mutants", "--first-seed", 40, "--seeds", 3, "--examples", 7, "--jobs", 2, "--complete", "--json")
    (given,) = asked
    given.pop("on_progress")
    assert given == {
        "seeds": range(40, 43),
        "max_examples": 7,
        "mutants": None,
        "is_complete": True,
        "judges_properties": True,
        "known": None,
        "limits": NO_LIMITS,
        "jobs": 2,
    }


@pytest.mark.parametrize("options", [("--record",), ("--known",), ("--record", "new.json", "--known")])
def test_known_killers_come_first(specsim, asked, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    record = Kills({"PV07": Row(1, (1,), ("tree.a",))}, {})
    write_kills(record, tmp_path / "kills.json")
    asked.append(KILLED)
    assert specsim("mutants", "PV07", *options, "kills.json").exit_code == 0
    assert asked[0]["known"] == record
    assert (read_kills(tmp_path / "kills.json") == record) == ("--known" in options)


def test_a_mutant_that_lives_under_limits_has_to_be_known(specsim, asked, tmp_path):
    known, record = tmp_path / "known.json", tmp_path / "record.json"
    under_limits = Matrix((5,), {"PV07": ((A,),), "OWN-01": ((),)}, ())
    write_unseen(["OWN-01"], known)
    for options, code in [((), 1), (("--known", known), 0), (("--record", record), 0), (("--known", record), 0)]:
        asked[:] = [under_limits]
        assert specsim("mutants", "--with-limits", *options).exit_code == code
        assert asked[0]["known"] is None
    write_unseen([], known)
    asked[:] = [under_limits]
    assert specsim("mutants", "--with-limits", "--known", known, "--record", record).exit_code == 1


def test_a_record_of_another_kind_is_refused(specsim, tmp_path):
    path = tmp_path / "kills.json"
    write_kills(Kills(), path)
    got = specsim("mutants", "--with-limits", "--known", path)
    assert (got.exit_code, got.stdout) == (2, "")
    assert f"--known {path} is no record of kills" in got.stderr and "Traceback" not in got.stderr


@pytest.mark.parametrize("said", ["", "[1, 2]", '{"rows": {}}', '{"mutants": {"PV07": 3}, "victims": {}}', "\x80"])
def test_a_record_of_another_format_is_refused_before_anything_runs(specsim, tmp_path, said):
    path = tmp_path / "notes.json"
    path.write_bytes(said.encode("latin-1"))
    got = specsim("mutants", "PV07", "--record", path)
    assert (got.exit_code, got.stdout) == (2, "")
    assert f"--record {path} is no record of kills" in got.stderr and "Traceback" not in got.stderr
    assert path.read_bytes() == said.encode("latin-1")


def test_one_mutant_is_run_and_recorded(specsim, tmp_path):
    path = tmp_path / "kills.json"
    got = specsim("mutants", "PV07", "--seeds", 2, "--record", path)
    assert (got.exit_code, got.stderr) == (0, "")
    assert got.stdout.splitlines()[-1] == "1 of 1 mutants killed, seeds 0 to 1"
    assert "powerless" not in got.stdout
    record = read_kills(path)
    assert list(record.rows) == ["PV07"]
    assert record.rows["PV07"].seeds == 2
    assert specsim("mutants", "PV07", "--seeds", 2, "--record", path).exit_code == 0
    assert read_kills(path) == record


def test_an_unknown_mutant_is_one_line(specsim):
    got = specsim("mutants", "PV07", "NONESUCH")
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr == "specsim: NONESUCH is no mutant; specsim list mutants prints all of them\n"
    assert specsim("mutants", "V-07").stderr.startswith("specsim: V-07 is no mutant; did you mean PV07 or ")
