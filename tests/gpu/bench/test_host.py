import json

from specsim.gpu.bench.host import FAST, HostTime, host_arguments, main, measure_host
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.launching.examples import SMALL, example
from specsim.gpu.launching.mode import launching
from specsim.operations import RECORDS


def test_every_operation_has_arguments_to_be_timed_with():
    for name in RECORDS:
        for sizes in (FAST, SMALL):
            with launching(runs=False):
                prepare(name, example(name, sizes))


def test_a_call_and_its_launches_are_timed():
    arguments = host_arguments("verify_tree_greedy_from_logits")
    time = measure_host("verify_tree_greedy_from_logits", arguments)
    assert time.operation == "verify_tree_greedy_from_logits"
    assert time.num_launches == 2, "choices of few rows, and the walk"
    assert time.eager_us > 0 < time.prepared_us


def test_the_target_is_a_ratio_and_a_floor():
    assert HostTime("one", eager_us=30.0, prepared_us=5.0, num_launches=1).is_within
    assert HostTime("one", eager_us=90.0, prepared_us=60.0, num_launches=9).is_within
    assert not HostTime("one", eager_us=30.1, prepared_us=20.0, num_launches=1).is_within
    assert HostTime("one", eager_us=30.0, prepared_us=20.0, num_launches=1).ratio == 1.5


def test_the_command_prints_one_document(capsys):
    main(["--json", "map_hot_tokens"])
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["device", "host"]
    (row,) = document["host"]
    assert list(row) == ["operation", "eager_us", "prepared_us", "num_launches", "ratio", "is_within"]
    assert (row["operation"], row["num_launches"]) == ("map_hot_tokens", 1)


def test_the_command_prints_a_table(capsys):
    status = main(["map_hot_tokens"])
    _, header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["operation", "launches", "call", "µs", "prepared", "µs", "ratio"]
    assert row.split()[:2] == ["map_hot_tokens", "1"]
    assert status == int("MISSED" in row)
