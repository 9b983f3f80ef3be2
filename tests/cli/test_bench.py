import importlib.util
import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from specsim.cli import bench
from specsim.gpu.bench import every, growth, targets, whole
from specsim.gpu.bench.every import BATCHES, Machine, Timed
from specsim.gpu.bench.rows import ROWS
from specsim.gpu.bench.targets import TARGETS, Compared
from specsim.gpu.bench.timing import Latency
from specsim.operations import RECORDS

COLUMNS = [
    *("operation", "shape", "median µs", "5 % to 95 %", "floor µs", "times floor", "launches"),
    *("bytes", "of copy", "eager µs", "torch µs"),
]

NODES = (", 4 nodes", ", 8 nodes", "", ", 32 nodes", ", 64 nodes", ", 128 nodes, topk 8", ", 256 nodes, topk 8")
FIGURES = "3.40 | 3.00 to 4.00 | 1.70 | 2.00 | 2 | 1,234 | 25% | 15.5 | -"


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Stand for a GPU on which every call takes 3.4 µs; what is larger than ``most`` requests has no room there."""
    gpu = SimpleNamespace(most=256)

    def measure(work, machine, peer):
        if work.seed > gpu.most:
            raise RuntimeError("out of memory")
        times = (3.4, 3.0, 4.0)
        timed = Timed(work.operation, work.shape, *times, machine.launch_us, 1234, 2, 1, 0.25, 15.5, None)
        return timed if peer is None else replace(timed, peer_us=6.8)

    monkeypatch.setattr(bench, "choose_device", lambda: "a GPU")
    monkeypatch.setattr(bench, "says_yes", lambda name: False)
    monkeypatch.setattr(every, "measure_machine", Machine)
    monkeypatch.setattr(every, "measure", measure)
    monkeypatch.setattr(every, "free_memory", lambda: 80_000_000_000)
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
    about = ["command", "conclusion", "again", "device", "versions", "verdict", "reasons", "seed"]
    assert list(document) == [*about, "launch_us", "copy_bandwidth", "rows", "unmeasured"]
    assert (document["verdict"], document["again"]) == ("conforms", "specsim bench --all --seed 0")
    assert document["device"] == "a GPU"
    assert document["unmeasured"] == []
    rows = {(row["operation"], row["shape"]): row for row in document["rows"]}
    assert rows.keys() == {(work.operation, work.shape) for work in every.works_of()}
    assert len(rows) == len(ROWS) * len(BATCHES)
    assert rows["build_tree", "64 requests"] == {
        "operation": "build_tree",
        "shape": "64 requests",
        "median_us": 3.4,
        "low_us": 3.0,
        "high_us": 4.0,
        "floor_us": 1.7,
        "num_bytes": 1234,
        "num_launches": 2,
        "num_inputs": 1,
        "share_of_copy": 0.25,
        "eager_us": 15.5,
        "torch_us": None,
        "peer_us": None,
        "times_floor": 2.0,
        "peer_times_ours": None,
    }


def test_an_operation_alone_stands_for_all_of_it(specsim, on_a_gpu, checked):
    got = specsim("bench", "--operation", "build_tree", "--examples", 7, "--seed", 3, "--jobs", 2, "--markdown")
    assert (got.exit_code, checked) == (0, [(("build_tree",), 3, 7, 2)])
    header, rule, first, *others = got.stdout.splitlines()
    assert header == f"| {' | '.join(COLUMNS)} |"
    assert rule == f"|{' --- |' * len(COLUMNS)}"
    assert first == f"| build_tree | 1 request | {FIGURES} |"
    assert len(others) == len(BATCHES) - 1


def test_a_table_names_what_floors_are_made_of(specsim, on_a_gpu, checked):
    got = specsim("bench", "--operation", "fill_bonus_tokens")
    title, header, first, *_ = got.stdout.splitlines()
    assert title.strip() == "a GPU: a launch takes 1.70 µs at least, a copy has 3.00 TB/s"
    assert header.split() == " ".join(COLUMNS).split()
    assert first.split() == ["fill_bonus_tokens", "1", "request", *FIGURES.replace("|", "").split()]


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


def test_rows_before_an_interrupt_are_printed(specsim, on_a_gpu, checked, monkeypatch, tmp_path):
    measure = every.measure

    def interrupted(work, machine, peer):
        if work.shape.startswith("64 "):
            raise KeyboardInterrupt
        return measure(work, machine, peer)

    monkeypatch.setattr(every, "measure", interrupted)
    got = specsim("bench", "--operation", "build_tree", "--json")
    document = json.loads(got.stdout)
    assert (got.exit_code, document["is_interrupted"]) == (130, True)
    assert [row["shape"] for row in document["rows"]] == ["1 request", "16 requests"]
    assert got.stderr == "specsim: 2 rows were timed before the interrupt\n"
    axis = ("--grow", "batch", "--plot", str(tmp_path / "figures"))
    got = specsim("bench", "--operation", "build_tree", *axis)
    assert got.exit_code == 130 and "sizes are missing after an interrupt" in got.stderr
    monkeypatch.setattr(every, "measure", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    assert specsim("bench", "--operation", "build_tree").stdout == ""


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
    monkeypatch.setattr(targets, "measure_targets", lambda machine, on_progress, peer: iter(rows))
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
    assert got.stderr == "specsim: --profile says what is timed, as --all, --operation, --iteration and --grow do\n"


PEER = """
ARRAYS = "torch"

from specsim.gpu import fill_bonus_tokens, gather_accept_tokens, per_step_draft_out_cache_loc as right


def per_step_draft_out_cache_loc(**arguments):
    return right(**arguments) + 1
"""


@pytest.fixture
def peer(tmp_path):
    """Return the name of a module of three operations, one of which is wrong."""
    (tmp_path / "peer_of_ours.py").write_text(PEER)
    return "peer_of_ours"


def test_a_peer_is_timed_beside_ours(specsim, on_a_gpu, checked, peer):
    chosen = ("--operation", "fill_bonus_tokens", "--operation", "gather_accept_tokens", "--batch", 2)
    got = specsim("bench", "--peer", peer, *chosen, "--markdown")
    assert (got.exit_code, got.stderr) == (0, "")
    header, _, *rows = got.stdout.splitlines()
    assert header == f"| {' | '.join([*COLUMNS, 'peer µs', 'peer / ours'])} |"
    assert rows == [
        f"| gather_accept_tokens | 2 requests | {FIGURES} | 6.80 | 2.00 |",
        f"| fill_bonus_tokens | 2 requests | {FIGURES} | 6.80 | 2.00 |",
    ]
    document = json.loads(specsim("bench", "--peer", peer, *chosen, "--json").stdout)
    assert [(row["peer_us"], row["peer_times_ours"]) for row in document["rows"]] == [(6.8, 2.0)] * 2


def test_an_operation_of_a_peer_that_differs_is_named_and_not_timed(specsim, on_a_gpu, checked, peer):
    got = specsim("bench", "--peer", peer, "--batch", 1, "--batch", 2, "--json")
    document = json.loads(got.stdout)
    assert got.exit_code == 1
    assert {row["operation"] for row in document["rows"]} == {"fill_bonus_tokens", "gather_accept_tokens"}
    (lost,) = document["unmeasured"]
    assert (lost["operation"], lost["shape"]) == ("per_step_draft_out_cache_loc", "1 request")
    assert lost["error"].startswith("peer_of_ours: step_cache_loc[0, 0] = "), lost
    assert got.stderr.endswith("specsim: 4 rows were timed, and 1 could not be\n")


def test_what_a_peer_lacks_is_timed_without_it(specsim, on_a_gpu, checked, peer):
    document = json.loads(specsim("bench", "--all", "--peer", peer, "--json").stdout)
    beside = {row["operation"] for row in document["rows"] if row["peer_us"] is not None}
    assert beside == {"fill_bonus_tokens", "gather_accept_tokens"}
    assert {row["operation"] for row in document["rows"]} == RECORDS.keys() - {"per_step_draft_out_cache_loc"}


@pytest.mark.parametrize(
    ("content", "options", "code", "message"),
    [
        (None, (), 4, "other_peer does not import: ModuleNotFoundError: No module named 'other_peer'"),
        ("ARRAYS = 'torch'", (), 2, "--peer: other_peer defines no operation of the table"),
        ("x = [", (), 4, "other_peer does not import: SyntaxError: '[' was never closed (other_peer.py, line 1)"),
        (
            "ARRAYS = 'torch'\ndef fill_bonus_tokens(**arguments): pass",
            ("--operation", "build_tree", "--operation", "fill_bonus_tokens"),
            2,
            "--peer: other_peer does not define build_tree",
        ),
        (
            "def fill_bonus_tokens(**arguments): pass",
            (),
            2,
            "--peer: other_peer.ARRAYS is 'numpy', but should be \"torch\", because operations are timed on the GPU",
        ),
    ],
)
def test_a_peer_that_cannot_be_timed_is_one_line(
    specsim, on_a_gpu, checked, tmp_path, monkeypatch, content, options, code, message
):
    monkeypatch.delitem(sys.modules, "other_peer", raising=False)
    if content is not None:
        (tmp_path / "other_peer.py").write_text(content)
    got = specsim("bench", "--peer", "other_peer", *options)
    assert (got.exit_code, got.stdout, got.stderr) == (code, "", f"specsim: {message}\n")
    assert checked == []


def test_a_peer_needs_a_gpu_before_it_is_imported(specsim, tmp_path, monkeypatch):
    (tmp_path / "never_imported.py").write_text("raise ValueError")
    monkeypatch.setattr(bench, "choose_device", lambda: "absent")
    got = specsim("bench", "--peer", "never_imported")
    assert (got.exit_code, got.stdout) == (4, "")
    assert got.stderr == "specsim: latencies are measured on a GPU, and the device here is absent\n"


def test_a_batch_that_no_memory_holds_is_refused_before_anything_is_checked(specsim, on_a_gpu, checked):
    got = specsim("bench", "--operation", "top_k_renorm", "--batch", 4, "--batch", 1_000_000)
    assert (got.exit_code, got.stdout, checked) == (2, "", [])
    assert got.stderr == (
        "specsim: top_k_renorm, 1000000 requests, k 50, needs 8,208.4 GB of the device, but 80.0 GB are free\n"
    )
    assert specsim("bench", "--operation", "top_k_renorm", "--batch", 4).exit_code == 0


def test_a_batch_is_one_of_rows_that_are_chosen(specsim, on_a_gpu):
    got = specsim("bench", "--batch", 4)
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr == (
        "specsim: --batch is for rows of --all, --operation, --iteration or --peer, and there are none\n"
    )


CHOSEN = ("bench", "--operation", "build_tree", "--batch", 4, "--batch", 8)


@pytest.fixture
def saved(specsim, on_a_gpu, checked, tmp_path):
    """Return a baseline in which one row took half as long, and a function that changes it."""
    path = tmp_path / "base.json"
    assert specsim(*CHOSEN, "--save", path).exit_code == 0
    document = json.loads(path.read_text())

    def change(**entries):
        path.write_text(json.dumps({**document, **entries}))
        return path

    rows = [row | {"median_us": us} for row, us in zip(document["rows"], (3.2, 1.7), strict=True)]
    change(rows=rows)
    return SimpleNamespace(path=path, change=change, document=document, rows=rows)


def test_a_saved_document_is_that_of_json(specsim, on_a_gpu, checked, tmp_path):
    printed = specsim(*CHOSEN, "--json", "--save", tmp_path / "base.json").stdout
    assert json.loads((tmp_path / "base.json").read_text()) == json.loads(printed)


def test_regressions_are_named_as_ratios_and_fail(specsim, saved):
    got = specsim(*CHOSEN, "--baseline", saved.path, "--markdown")
    header, _, first, second = got.stdout.splitlines()
    assert (got.exit_code, header) == (1, f"| {' | '.join([*COLUMNS, 'times baseline'])} |")
    assert [line.split(" | ")[-1] for line in (first, second)] == ["1.06 |", "2.00 |"]
    assert got.stderr == (
        f"build_tree, 8 requests: 3.40 µs are 2.00 times as long as in {saved.path}\n"
        f"specsim: 2 rows were timed; 1 of 2 in {saved.path} take over 1.1 times as long\n"
    )
    document = json.loads(specsim(*CHOSEN, "--baseline", saved.path, "--json").stdout)
    assert [row["times_baseline"] for row in document["rows"]] == [3.4 / 3.2, 2.0]


@pytest.mark.parametrize(("tolerance", "code", "slower"), [(1.5, 0, 0), (1, 0, 0), (0.99, 1, 1), (0.05, 1, 2)])
def test_a_tolerance_says_what_a_regression_is(specsim, saved, tolerance, code, slower):
    got = specsim(*CHOSEN, "--baseline", saved.path, "--tolerance", tolerance)
    assert (got.exit_code, got.stderr.count("times as long as in")) == (code, slower)


def test_rows_that_a_baseline_lacks_have_no_ratio(specsim, saved):
    document = json.loads(specsim(*CHOSEN, "--batch", 2, "--baseline", saved.path, "--json").stdout)
    assert [row["times_baseline"] for row in document["rows"]] == [3.4 / 3.2, 2.0, None]
    got = specsim("bench", "--operation", "fill_bonus_tokens", "--baseline", saved.path)
    assert got.exit_code == 5
    assert got.stderr == (
        f"specsim: 4 rows were timed; 0 of 0 in {saved.path} take over 1.1 times as long: it has none of these rows\n"
    )


def test_a_baseline_of_another_device_or_version_says_so(specsim, saved):
    versions = saved.document["versions"]
    path = saved.change(rows=saved.rows[:1], device="another GPU", versions=versions | {"torch": "1.0"})
    got = specsim(*CHOSEN, "--baseline", path)
    assert got.exit_code == 0
    assert got.stderr == (
        f"{path} was measured otherwise: device another GPU there and a GPU here, "
        f"torch 1.0 there and {versions['torch']} here\n"
    )


def test_a_row_that_is_lost_fails_beside_a_baseline_too(specsim, on_a_gpu, saved):
    on_a_gpu.most = 4
    got = specsim(*CHOSEN, "--baseline", saved.path)
    assert got.exit_code == 1
    assert got.stderr.splitlines()[-1] == (
        f"specsim: 1 rows were timed, and 1 could not be; 0 of 1 in {saved.path} take over 1.1 times as long"
    )


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{}", '{"rows": 3, "device": ""}', '{"rows": [{}], "device": ""}', '{"rows": []}', "\0"]
)
def test_what_is_no_baseline_is_one_line_before_anything_is_checked(specsim, on_a_gpu, checked, tmp_path, content):
    path = tmp_path / "base.json"
    if content is not None:
        path.write_text(content)
    got = specsim(*CHOSEN, "--baseline", path)
    assert (got.exit_code, got.stdout, checked) == (2, "", [])
    why = "No such file or directory" if content is None else "it is no document of specsim bench"
    assert got.stderr == f"specsim: --baseline {path}: {why}\n"


@pytest.mark.parametrize("median", [0, -1, "x", None, float("nan"), float("inf")])
def test_a_median_of_a_baseline_is_a_positive_number(specsim, saved, median):
    path = saved.change(rows=[saved.rows[0] | {"median_us": median}])
    assert specsim(*CHOSEN, "--baseline", path).exit_code == 2


def test_a_file_that_cannot_be_saved_is_one_line_before_anything_is_checked(specsim, on_a_gpu, checked, tmp_path):
    got = specsim(*CHOSEN, "--save", tmp_path / "nowhere" / "base.json")
    assert (got.exit_code, got.stdout, checked) == (2, "", [])
    assert got.stderr == f"specsim: --save {tmp_path / 'nowhere' / 'base.json'}: No such file or directory\n"


def test_a_tolerance_is_that_of_a_baseline(specsim):
    got = specsim(*CHOSEN, "--tolerance", 0.2)
    assert (got.exit_code, got.stderr) == (2, "specsim: --tolerance is that of --baseline, and there is none\n")


def test_axes_are_those_that_can_grow():
    assert tuple(growth.AXES) == bench.AXES


def test_an_operation_is_timed_at_several_sizes_of_an_axis(specsim, on_a_gpu, checked):
    got = specsim("bench", "--grow", "nodes", "--operation", "build_tree", "--operation", "fill_bonus_tokens", "--json")
    document = json.loads(got.stdout)
    assert (got.exit_code, checked) == (0, [(("build_tree",), 0, 5, None)])
    shapes = [f"64 requests{more}" for more in NODES]
    assert [(row["operation"], row["shape"]) for row in document["rows"]] == [("build_tree", shape) for shape in shapes]
    sizes = [4, 8, 16, 32, 64, 128, 256]
    assert document["growth"] == [
        {"axis": "nodes", "operation": "build_tree", "kind": "", "sizes": sizes, "shapes": shapes}
    ]


def test_an_axis_alone_is_that_of_all_operations_that_have_it(specsim, on_a_gpu, checked):
    document = json.loads(specsim("bench", "--grow", "topk", "--grow", "vocab", "--json").stdout)
    found = [(one["axis"], one["operation"]) for one in document["growth"]]
    assert found == [(axis, one.operation) for axis in ("topk", "vocab") for one in growth.growths_of(axis)]
    assert {row["operation"] for row in document["rows"]} == {operation for _, operation in found}


def test_a_peer_is_timed_along_an_axis(specsim, on_a_gpu, checked, peer):
    document = json.loads(specsim("bench", "--grow", "nodes", "--peer", peer, "--json").stdout)
    assert [one["operation"] for one in document["growth"]] == ["gather_accept_tokens"]
    assert [row["peer_us"] for row in document["rows"]] == [6.8] * 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--grow", "vocab", "--operation", "build_tree", "--operation", "fill_bonus_tokens"),
            "--grow vocab: no size of it changes build_tree or fill_bonus_tokens",
        ),
        (("--grow", "nodes", "--batch", 4), "--grow says at which sizes rows are timed, and --batch says it too"),
        (
            ("--grow", "nodes", "--profile", "targets"),
            "--profile says what is timed, as --all, --operation, --iteration and --grow do",
        ),
        (("--all", "--plot", "figures"), "--plot draws what --grow measures, and there is none"),
    ],
)
def test_what_does_not_go_together_is_one_line(specsim, on_a_gpu, checked, options, message):
    got = specsim("bench", *options)
    assert (got.exit_code, got.stdout, got.stderr) == (2, "", f"specsim: {message}\n")
    assert checked == []


def test_a_page_shows_what_was_timed_and_what_could_not_be(specsim, on_a_gpu, checked, tmp_path):
    on_a_gpu.most = 64
    got = specsim("bench", "--operation", "build_tree", "--grow", "batch", "--report", "page.html")
    assert got.exit_code == 1
    page = (tmp_path / "page.html").read_text()
    assert "<title>fails: specsim bench</title>" in page and "a GPU" in page
    assert page.count("<polyline") == 3 and page.count('class="value"') == 4
    assert page.count("out of memory") == 4, "two rows, in the list of reasons and in the table"
    assert "specsim bench --operation build_tree --grow batch --seed 0" in page


def test_figures_need_matplotlib_before_anything_is_checked(specsim, on_a_gpu, checked, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    got = specsim("bench", "--grow", "nodes", "--plot", "figures")
    assert (got.exit_code, got.stdout, checked) == (4, "", [])
    assert got.stderr == "specsim: --plot needs matplotlib: pip install 'specsim-decoding[plots]'\n"


def test_figures_are_drawn_of_each_axis(specsim, on_a_gpu, checked, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra plots")
    got = specsim("bench", "--grow", "nodes", "--operation", "build_tree", "--plot", "some/figures")
    assert (got.exit_code, got.stderr) == (0, "")
    assert {path.name for path in (tmp_path / "some" / "figures").iterdir()} == {"nodes.png", "nodes.svg"}


def test_a_folder_that_cannot_be_made_is_one_line(specsim, on_a_gpu, checked, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "find_missing", lambda extra: ())
    (tmp_path / "taken").touch()
    got = specsim("bench", "--grow", "nodes", "--plot", "taken/figures")
    assert (got.exit_code, got.stdout, checked) == (2, "", [])
    assert got.stderr == "specsim: --plot taken/figures: Not a directory\n"


@pytest.fixture
def iterations(monkeypatch):
    """Let an iteration take 90 µs as a graph, and fail at more than 256 requests; return the sizes of all."""
    asked = []

    def measure(batches, topk, nodes):
        asked.append((*batches, topk, nodes))
        if batches[0] > 256:
            raise RuntimeError("out of memory. Tried")
        return [Latency(whole.ITERATION, "", us, us - 10, us + 10, "-") for us in (90.0, 4000.0)]

    monkeypatch.setattr(whole, "measure_iterations", measure)
    return asked


def test_iterations_are_timed_as_rows(specsim, on_a_gpu, checked, iterations):
    got = specsim("bench", "--iteration", "--batch", 8, "--markdown")
    assert (got.exit_code, iterations, checked) == (0, [(8, 4, 16)], [(tuple(RECORDS), 0, 5, None)])
    assert got.stdout.splitlines()[2:] == [
        "| decode iteration | 8 requests, length about 70 | 90.00 | 80.00 to 100.00 | - | - | - | - | - | 4,000.0 | - |"
    ]
    both = json.loads(specsim("bench", "--iteration", "--operation", "build_tree", "--batch", 8, "--json").stdout)
    assert [row["operation"] for row in both["rows"]] == ["build_tree", "decode iteration"]
    assert both["rows"][1]["times_floor"] is None


def test_iterations_grow_with_requests_and_trees(specsim, on_a_gpu, checked, iterations):
    got = specsim("bench", "--iteration", *("--grow", "batch", "--grow", "topk", "--grow", "nodes"), "--json")
    document = json.loads(got.stdout)
    batches = [(1, 4, 16), (4, 4, 16), (16, 4, 16), (64, 4, 16), (256, 4, 16), (1024, 4, 16)]
    beams = [(64, 1, 6), (64, 2, 16), (64, 8, 16), (64, 16, 16)]
    trees = [(64, 4, 4), (64, 4, 8), (64, 4, 32), (64, 4, 64), (64, 8, 128), (64, 8, 256)]
    assert iterations == batches + beams + trees
    assert [(one["axis"], one["operation"]) for one in document["growth"]] == [
        (axis, "decode iteration") for axis in ("batch", "topk", "nodes")
    ]
    assert got.exit_code == 1
    (lost,) = document["unmeasured"]
    assert lost == {
        "operation": "decode iteration",
        "shape": "1024 requests, length about 70",
        "error": "RuntimeError: out of memory",
    }
    names = {(row["operation"], row["shape"]) for row in document["rows"]} | {(lost["operation"], lost["shape"])}
    assert {("decode iteration", shape) for one in document["growth"] for shape in one["shapes"]} == names


def test_an_iteration_has_no_vocabulary_of_its_own(specsim, on_a_gpu, checked, iterations):
    got = specsim("bench", "--iteration", "--grow", "vocab")
    assert (got.exit_code, got.stderr) == (2, "specsim: --grow vocab: no size of it changes decode iteration\n")
    document = json.loads(
        specsim("bench", "--iteration", "--operation", "fast_topk", "--grow", "vocab", "--json").stdout
    )
    assert [one["operation"] for one in document["growth"]] == ["fast_topk"]
