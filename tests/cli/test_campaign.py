"""What ``specsim campaign`` refuses before anything runs, and one on a cluster of three nodes, of which one dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from specsim.campaigns.address import NoCluster, check_address, environment_for
from specsim.installation import DISTRIBUTION, find_missing
from tests.specsim.campaigns.planted import plant

ROOT = Path(__file__).parents[2]
NO_RAY = pytest.mark.skipif(bool(find_missing("cluster")), reason="ray is not installed")


@pytest.fixture
def pretending_ray(monkeypatch):
    """Let the command go on to what it refuses beside a missing Ray."""
    monkeypatch.setattr("specsim.cli.campaign.find_missing", lambda extra: ())


def test_without_ray_the_extra_is_named(specsim, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    got = specsim("campaign", "specsim.reference", "--seeds", "0..1")
    expected = f"specsim: specsim campaign needs ray: pip install '{DISTRIBUTION}[cluster]'\n"
    assert (got.exit_code, got.stderr) == (4, expected)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ((), "a campaign needs --hours H or --seeds A..B: it would not end"),
        (
            ("--seeds", "0..9", "--hours", "1"),
            "--hours is 1, but should be absent beside --seeds, "
            "because a campaign ends with its seeds or with its hours",
        ),
        (
            ("--seeds", "9..0"),
            "--seeds is 9..0, but should be A..B, such as 0..99, "
            "because units take the seeds from A to B, and a seed is at most 4,294,967,295",
        ),
        (
            ("--seeds", "0..9", "--seed", "3"),
            "--seed is 3, but should be absent beside --seeds, because the first seed of 0..9 is there",
        ),
        (
            ("--seeds", "0..9", "--of", "mutant"),
            "IMPL is my_engine, but should be specsim.reference of mutants, "
            "because faults are planted in the reference",
        ),
        (
            ("--seeds", "0..9", "--name", "agreement.build_tre"),
            "agreement.build_tre is no property, cell or mutant; did you mean agreement.build_tree",
        ),
        (
            ("--seeds", "0..9", "--of", "machine", "--name", "agreement.build_tree"),
            "--of is machine, but should have property, because agreement.build_tree is a property",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(specsim, pretending_ray, options, line):
    got = specsim("campaign", "my_engine", *options)
    assert got.exit_code == 2
    assert got.stderr.startswith(f"specsim: {line}")
    assert len(got.stderr.splitlines()) == 1


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_runtime_environment_is_an_object(specsim, pretending_ray, tmp_path, text):
    (tmp_path / "env.json").write_text(text)
    got = specsim("campaign", "my_engine", "--seeds", "0..0", "--runtime-env", "env.json")
    assert (got.exit_code, got.stderr.startswith("specsim: --runtime-env env.json ")) == (2, True)


@pytest.mark.parametrize("address", ["here", "ray://10.0.0.1:10001", "10.0.0.1:0", "10.0.0.1:x"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(NoCluster) as caught:
        check_address(address)
    assert not caught.value.is_absent
    assert str(caught.value) == (
        f"--address is {address}, but should be 10.0.0.1:6379, as ray start prints it, or auto, "
        "because units come back on Ray's own port"
    )


def test_a_cluster_that_is_not_there_is_named_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(NoCluster) as caught:
        check_address(f"127.0.0.1:{port}")
    assert caught.value.is_absent
    assert str(caught.value) == f"--address 127.0.0.1:{port} cannot be reached: Connection refused"


def test_what_listens_and_is_no_cluster_is_named_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(NoCluster) as caught:
            check_address(f"127.0.0.1:{port}")
        thread.join()
    expected = f"--address 127.0.0.1:{port} is no Ray cluster: what listens there does not speak gRPC"
    assert (caught.value.is_absent, str(caught.value)) == (True, expected)


def test_a_module_of_the_working_directory_goes_to_the_nodes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant(tmp_path, "planted_here")
    sent = {"working_dir": ".", "excludes": ["/results", ".git", "__pycache__"]}
    assert environment_for("planted_here", "10.0.0.1:6379", "results") == sent
    assert environment_for("planted_here", None, "results") == {}
    assert environment_for("specsim.reference", "10.0.0.1:6379", "results") == {}


@NO_RAY
@pytest.mark.slow
def test_a_campaign_loses_a_node_is_stopped_and_goes_on(tmp_path, monkeypatch):
    """Every unit is reported once, both planted faults are found, and nothing of it is left running."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    paths = [str(ROOT), *(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    from ray.cluster_utils import Cluster

    engine, folder = plant(tmp_path, "planted_campaign"), tmp_path / "results"
    sizes = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**sizes, "include_dashboard": False})
    names = ("--name", "agreement.fill_bonus_tokens", "--name", "agreement.build_tree")
    options = ("--seeds", "0..1", "--of", "property", "--of", "machine", *names, "--folder", str(folder), "--json")
    command = [sys.executable, "-m", "specsim", "campaign", engine, "--address", cluster.address, *options]

    def rows():
        with suppress(FileNotFoundError):
            return [json.loads(line) for line in (folder / "units.jsonl").read_text().splitlines()]
        return []

    def begin():
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_until(process, is_true):
        until = time.monotonic() + 120
        while not is_true() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        assert is_true(), process.communicate()

    try:
        nodes = [cluster.add_node(**sizes) for _ in range(2)]
        first = begin()
        wait_until(first, lambda: len(rows()) >= 6)
        cluster.remove_node(nodes[0], allow_graceful=False)
        wait_until(first, lambda: any(row["runs"] > 1 for row in rows()))
        first.send_signal(signal.SIGINT)
        stopped = json.loads(first.communicate(timeout=60)[0])
        assert (first.returncode, stopped["verdict"]) == (130, "interrupted")
        assert stopped["lost_runs"] >= 1
        second = begin()
        document = json.loads(second.communicate(timeout=120)[0])
    finally:
        cluster.shutdown()
    assert (second.returncode, document["verdict"], document["resumed_units"]) == (1, "fails", stopped["units"])
    found = [row["id"] for row in rows()]
    assert len(found) == len(set(found)) == document["units"] == document["all_units"] == 34
    assert document["lost_units"] == {}
    operations = {one["operation"] for one in document["causes"]}
    assert operations == {"fill_bonus_tokens", ""}
    (case,) = [one["case"] for one in document["causes"] if one["case"]]
    assert Path(tmp_path, case).is_file()
