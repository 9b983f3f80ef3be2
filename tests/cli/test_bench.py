import json
from types import SimpleNamespace

import pytest

from specsim.cli import bench
from specsim.gpu.bench import every, targets
from specsim.gpu.bench.every import BATCHES, Machine, Timed
from specsim.gpu.bench.rows import ROWS
from specsim.gpu.bench.targets import TARGETS, Compared
from specsim.operations import RECORDS

COLUMNS = ["operation", "shape", "median µs", "5 % to 95 %", "floor µs", "times floor", "launches"]


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Stand for a GPU on which every call takes 3.4 µs; what is larger than ``most`` requests has no room there."""
    gpu = SimpleNamespace(most=256)

    def measure(row, sizes, machine):
        if sizes.batch > gpu.most:
            raise RuntimeError("out of memory")
        return Timed(row.operation, every.shape_of(row, sizes.batch), 3.4, 3.0, 4.0, machine.launch_us, 100, 2, 1)

    monkeypatch.setattr(bench, "choose_device", lambda: "a GPU")
    monkeypatch.setattr(bench, "says_yes", lambda name: False)
    monkeypatch.setattr(every, "measure_machine", Machine)
    monkeypatch.setattr(every, "measure_row", measure)
    return gpu


@pytest.fixture
def checked(monkeypatch):
    """Return what was checked first, which all conforms."""
    calls = []

    def check(operations, seed, examples, jobs):
        calls.append((operations, seed, examples, jobs))
        return SimpleNamespace(verdict="conforms")

    monkeypatch.setattr(bench, "_check_isolated", check)
    return calls


def test_all_prints_rows_of_every_operation(specsim, on_a_gpu, checked):
    got = specsim("bench", "--all", "--json")
    document = json.loads(got.stdout)
    assert (got.exit_code, checked) == (0, [(tuple(RECORDS), 0, 5, None)])
    assert list(document) == ["device", "launch_us", "copy_bandwidth", "rows", "unmeasured"]
    assert document["device"] == "a GPU"
    assert document["unmeasured"] == []
    rows = {(row["operation"], row["shape"]): row for row in document["rows"]}
    assert rows.keys() == {(row.operation, every.shape_of(row, batch)) for row in ROWS for batch in BATCHES}
    assert rows["build_tree", "64 requests"] == {
        "operation": "build_tree",
        "shape": "64 requests",
        "median_us": 3.4,
        "low_us": 3.0,
        "high_us": 4.0,
        "floor_us": 1.7,
        "num_bytes": 100,
        "num_launches": 2,
        "num_inputs": 1,
        "times_floor": 2.0,
    }


def test_an_operation_alone_stands_for_all_of_it(specsim, on_a_gpu, checked):
    got = specsim("bench", "--operation", "build_tree", "--examples", 7, "--seed", 3, "--jobs", 2, "--markdown")
    assert (got.exit_code, checked) == (0, [(("build_tree",), 3, 7, 2)])
    header, rule, first, *others = got.stdout.splitlines()
    assert header == f"| {' | '.join(COLUMNS)} |"
    assert rule == "| --- | --- | --- | --- | --- | --- | --- |"
    assert first == "| build_tree | 1 request | 3.40 | 3.00 to 4.00 | 1.70 | 2.00 | 2 |"
    assert len(others) == len(BATCHES) - 1


def test_a_table_names_what_floors_are_made_of(specsim, on_a_gpu, checked):
    got = specsim("bench", "--operation", "fill_bonus_tokens")
    title, header, first, *_ = got.stdout.splitlines()
    assert title.strip() == "a GPU: a launch takes 1.70 µs at least, a copy has 3.00 TB/s"
    assert header.split() == " ".join(COLUMNS).split()
    assert first.split() == ["fill_bonus_tokens", "1", "request", "3.40", "3.00", "to", "4.00", "1.70", "2.00", "2"]


def test_rows_that_could_not_be_timed_are_named_and_fail(specsim, on_a_gpu, checked):
    on_a_gpu.most = 64
    got = specsim("bench", "--operation", "build_tree", "--json")
    document = json.loads(got.stdout)
    assert (got.exit_code, len(document["rows"])) == (1, 3)
    (lost,) = document["unmeasured"]
    assert lost == {"operation": "build_tree", "shape": "256 requests", "error": "RuntimeError: out of memory"}
    assert got.stderr == (
        "build_tree, 256 requests: RuntimeError: out of memory\nspecsim: 3 rows were timed, and 1 could not be\n"
    )


def test_nothing_is_timed_while_agreement_is_red(specsim, on_a_gpu, monkeypatch):
    failure = SimpleNamespace(operation="build_tree", property="agreement.build_tree", message="it differs")
    report = SimpleNamespace(verdict="does not conform", failures=[failure])
    monkeypatch.setattr(bench, "_check_isolated", lambda *words: report)
    got = specsim("bench", "--all")
    assert (got.exit_code, got.stdout) == (1, "")
    assert got.stderr == (
        "build_tree: agreement.build_tree: it differs\n"
        "specsim: no latencies: specsim check says does not conform, seed 0\n"
    )


def test_the_check_is_of_the_operations_that_are_timed(specsim, on_a_gpu):
    got = specsim("bench", "--operation", "fill_bonus_tokens", "--examples", 1, "--jobs", 1, "--json")
    assert (got.exit_code, got.stderr) == (0, "")
    assert {row["operation"] for row in json.loads(got.stdout)["rows"]} == {"fill_bonus_tokens"}


def test_a_wrong_operation_names_the_nearest(specsim):
    got = specsim("bench", "--operation", "build_tre")
    assert (got.exit_code, got.stdout) == (2, "")
    assert "'build_tre' is no operation; did you mean build_tree?" in got.stderr


def test_targets_are_printed_beside_what_was_measured(specsim, on_a_gpu, checked, monkeypatch):
    rows = [
        Compared("build_tree", "64 x 64, QLEN_ONLY", 4.0, 3.4, 3.0, 4.0, 1.7, 1),
        Compared("decode iteration", "64 requests", 45.0, 90.0, 80.0, 99.0, None, 70, 35),
    ]
    monkeypatch.setattr(targets, "measure_targets", lambda machine, on_progress: iter(rows))
    got = specsim("bench", "--profile", "targets", "--markdown")
    assert (got.exit_code, checked) == (0, [(tuple(dict.fromkeys(one.operation for one in TARGETS)), 0, 5, None)])
    header, _, *lines = got.stdout.splitlines()
    assert header == (
        "| operation | shape | target µs | median µs | 5 % to 95 % | times target | share of floor | launches |"
    )
    assert lines == [
        "| build_tree | 64 x 64, QLEN_ONLY | 4.0 | 3.40 | 3.00 to 4.00 | 0.85 | 50% | 1 |",
        "| decode iteration | 64 requests | 45.0 | 90.00 | 80.00 to 99.00 | 2.00 | - | 70 of 35 |",
    ]
    (_, iteration) = json.loads(specsim("bench", "--profile", "targets", "--json").stdout)["rows"]
    assert (iteration["times_target"], iteration["share_of_floor"], iteration["target_launches"]) == (2.0, None, 35)


def test_a_profile_is_no_choice_of_operations(specsim):
    got = specsim("bench", "--profile", "targets", "--all")
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr == "specsim: --profile says what is timed, and --all and --operation say it too\n"
