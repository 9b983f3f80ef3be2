"""Calls of an engine that computes on NumPy arrays, recorded while it runs."""

import importlib
import logging
import multiprocessing
import subprocess
import sys
import threading

import numpy as np
import pytest

import specsim
from specsim.conformance import arrays
from specsim.conformance.backend import BackendUnavailable
from specsim.conformance.cases import read_case
from specsim.conformance.recording import files
from specsim.conformance.recording.kept import Tally
from specsim.rejection import Reason, SpecRejection

KERNELS = """
import numpy as np
from specsim import reference

def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    if num_accepted_tokens.max(initial=0) > accept_tokens.shape[1]:
        raise ValueError("too many\\nof them")
    return accept_tokens[np.arange(len(accept_tokens)), num_accepted_tokens - 1]

def verify_tree_greedy_out(candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling, target_predict,
                           num_steps, out):
    outputs = reference.verify_tree_greedy(
        candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling, target_predict, num_steps)
    for buffer, output in zip(out, outputs):
        buffer[tuple(slice(size) for size in output.shape)] = output

assign_req_to_token_pool = reference.assign_req_to_token_pool
"""
ENGINE = """
from kernels_of_test import fill_bonus_tokens

def step(*arguments, **named):
    return fill_bonus_tokens(*arguments, **named)
"""
CLASSES = """
from specsim.conformance.recording.taps import Tap

class Sampler:
    def last(self, tokens, counts):
        return [tokens[row, count - 1] for row, count in enumerate(counts)]

    @staticmethod
    def into(tokens, counts, bonus):
        bonus[:] = tokens[range(len(tokens)), counts - 1]

CALLS = (
    Tap("fill_bonus_tokens", "Sampler.into", (__name__,),
        lambda tokens, counts, bonus: {"accept_tokens": tokens, "num_accepted_tokens": counts},
        lambda returned, tokens, counts, bonus: (bonus,)),
    Tap("fill_bonus_tokens", "Sampler.last", (__name__,),
        lambda self, tokens, counts: None, lambda returned, self, tokens, counts: returned),
    Tap("fast_topk", "absent", ("absent_of_test", __name__), dict, tuple),
)
"""
TOKENS = np.array([[5, 6], [7, 0]], dtype=np.int32)
COUNTS = np.array([2, 1], dtype=np.int32)


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Return the kernels and the engine that has imported one of them by its name."""
    for name, text in (("kernels", KERNELS), ("engine", ENGINE), ("classes", CLASSES)):
        (tmp_path / f"{name}_of_test.py").write_text(text)
        monkeypatch.delitem(sys.modules, f"{name}_of_test", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return importlib.import_module("kernels_of_test"), importlib.import_module("engine_of_test")


def recorded(folder):
    return [read_case(path) for path in sorted(folder.glob("*.json"))]


def recording_of(folder, **options):
    return specsim.record(folder, "kernels_of_test", **options)


def numbered(number):
    return np.full((1, 1), number, dtype=np.int32), np.ones(1, dtype=np.int32)


def test_a_call_is_seen_wherever_the_function_was_imported_to_and_the_function_is_put_back(engine, tmp_path):
    kernels, loop = engine
    before = kernels.fill_bonus_tokens
    with recording_of(tmp_path / "calls") as recording:
        got = loop.step(TOKENS, num_accepted_tokens=COUNTS)
    assert got.tolist() == [6, 7]
    assert kernels.fill_bonus_tokens is loop.fill_bonus_tokens is before
    loop.step(TOKENS, COUNTS)
    (case,) = recorded(tmp_path / "calls")
    assert case.observed.outputs["bonus_tokens"].tolist() == case.expected.outputs["bonus_tokens"].tolist() == [6, 7]
    assert (case.kind, case.property_name) == ("observed", "agreement.fill_bonus_tokens")
    assert case.provenance.implementation == "kernels_of_test"
    assert recording.tallies == {"fill_bonus_tokens": Tally(calls=1)}


def test_arguments_are_those_before_the_call_and_outputs_those_after_it(engine, tmp_path):
    kernels, _ = engine
    rows, slots = np.array([1], dtype=np.int64), np.array([8, 9], dtype=np.int64)
    table = np.zeros((2, 4), dtype=np.int32)
    with specsim.record(tmp_path / "calls", kernels):
        kernels.assign_req_to_token_pool(rows, table, np.array([1]), np.array([3]), slots)
        table[:] = 77
    (case,) = recorded(tmp_path / "calls")
    assert case.arguments["req_to_token"].tolist() == [[0] * 4] * 2
    assert case.observed.outputs["req_to_token"].tolist() == [[0] * 4, [0, 8, 9, 0]]


def test_of_a_larger_buffer_of_the_caller_the_output_is_kept(engine, tmp_path):
    kernels, _ = engine
    node = np.zeros((1, 1), dtype=np.int64)
    out = (np.full(5, 9, np.int32), np.full((3, 4), 9, np.int32), np.full(2, 9, np.int32))
    with recording_of(tmp_path / "calls"):
        kernels.verify_tree_greedy_out(node, node, node - 1, node - 1, node + 3, 0, out=out)
        kernels.verify_tree_greedy_out(node, node, node - 1, node - 1, node + 3, 0, out)
    cases = recorded(tmp_path / "calls")
    got = [{name: one.tolist() for name, one in case.observed.outputs.items()} for case in cases]
    assert got == [{"predict": [3], "accept_index": [[0]], "num_accepted_drafts": [0]}] * 2


def test_what_is_raised_passes_unchanged_and_is_recorded(engine, tmp_path):
    kernels, loop = engine
    with recording_of(tmp_path / "calls"):
        with pytest.raises(ValueError, match="too many") as raised:
            loop.step(TOKENS, COUNTS + 1)
        with pytest.raises(SpecRejection):
            kernels.assign_req_to_token_pool(COUNTS, TOKENS, COUNTS, COUNTS, COUNTS[:, None])
    assert raised.traceback[-1].name == "fill_bonus_tokens"
    cases = {case.operation: case.observed for case in recorded(tmp_path / "calls")}
    assert cases["fill_bonus_tokens"].error == "ValueError: too many"
    assert cases["assign_req_to_token_pool"].rejection in Reason.__members__


def test_the_first_calls_are_kept_and_a_sample_of_all_later_ones(engine, tmp_path):
    _, loop = engine
    kept = []
    for folder in ("one", "two"):
        with recording_of(tmp_path / folder, limit=5, seed=3) as recording:
            for number in range(40):
                loop.step(*numbered(number))
                if number % 16 == 0:
                    recording.flush()
        kept.append(sorted(int(case.arguments["accept_tokens"][0, 0]) for case in recorded(tmp_path / folder)))
    assert kept[0] == kept[1]
    assert len(kept[0]) == 5
    assert kept[0][:3] == [0, 1, 2]
    assert kept[0][4] > 4
    assert "fill_bonus_tokens: 5 of 40 calls kept" in recording.in_words()
    (words,) = (tmp_path / "two").glob("recorded-*.txt")
    assert "the first 3 calls of each operation, and 2 of all later ones drawn with seed 3" in words.read_text()


def test_calls_that_cannot_be_kept_are_made_and_counted(engine, tmp_path, monkeypatch):
    _, loop = engine
    with recording_of(tmp_path / "calls", max_call_bytes=32, max_held_bytes=40) as recording:
        with pytest.raises(TypeError):
            loop.step(TOKENS, COUNTS, surplus=1)
        assert loop.step(TOKENS, np.array([2, 1])).tolist() == [6, 7]
        assert loop.step(*numbered(4)).tolist() == [4]
        assert loop.step(TOKENS, COUNTS).tolist() == [6, 7]
        monkeypatch.setattr(arrays, "is_capturing", lambda: True)
        assert loop.step(TOKENS, COUNTS).tolist() == [6, 7]
        recording.flush()
        assert recorded(tmp_path / "calls") == []
        monkeypatch.undo()
    assert recording.tallies == {"fill_bonus_tokens": Tally(5, in_captures=1, not_understood=1, too_large=1, no_room=1)}
    assert recording.in_words()[1] == (
        "fill_bonus_tokens: 1 of 5 calls kept, 1 made while a graph was captured, 1 not understood, 1 too large, "
        "1 without room"
    )


def test_a_full_disk_ends_the_recording_with_one_warning_and_not_the_engine(engine, tmp_path, monkeypatch, caplog):
    kernels, loop = engine
    before = kernels.fill_bonus_tokens

    def full(case, directory, stem):
        (directory / f"{stem}.json.part").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_case", full)
    monkeypatch.setattr(files.Folder, "tell", lambda folder, lines: full(None, tmp_path, "words"))
    with caplog.at_level(logging.WARNING), recording_of(tmp_path / "calls") as recording:
        loop.step(TOKENS, COUNTS)
        recording.flush()
        assert loop.step(TOKENS, COUNTS).tolist() == [6, 7]
        recording.flush()
    assert [one.getMessage() for one in caplog.records] == [
        f"recording into {tmp_path / 'calls'} ends: OSError: [Errno 28] No space left on device"
    ]
    assert list((tmp_path / "calls").glob("*.json*")) == []
    assert kernels.fill_bonus_tokens is before


def test_files_have_no_more_bytes_than_they_may(engine, tmp_path, caplog):
    _, loop = engine
    with recording_of(tmp_path / "calls", max_bytes=3000) as recording:
        for number in range(20):
            loop.step(*numbered(number))
        recording.flush()
        assert loop.step(*numbered(5)).tolist() == [5]
    assert len(caplog.records) == 1
    with recording_of(tmp_path / "few", max_bytes=3000, limit=2) as recording:
        for number in range(20):
            loop.step(*numbered(number))
            recording.flush()
    sizes = [path.stat().st_size for path in (tmp_path / "calls").glob("*.json")]
    assert sizes
    assert sum(sizes) <= 3000
    assert len(caplog.records) == 1, "files that lost their place do not count"


def test_threads_share_a_recording(engine, tmp_path):
    _, loop = engine

    def work():
        for number in range(200):
            loop.step(*numbered(number))

    with recording_of(tmp_path / "calls", limit=10) as recording:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert recording.tallies["fill_bonus_tokens"].calls == 800
    assert len(recorded(tmp_path / "calls")) == 10


def test_a_process_that_is_forked_writes_calls_of_its_own(engine, tmp_path):
    _, loop = engine
    with recording_of(tmp_path / "calls"):
        loop.step(*numbered(1))
        other = multiprocessing.get_context("fork").Process(target=loop.step, args=numbered(2))
        other.start()
        other.join()
        loop.step(*numbered(3))
    tokens = sorted(int(case.arguments["accept_tokens"][0, 0]) for case in recorded(tmp_path / "calls"))
    assert (other.exitcode, tokens) == (0, [1, 2, 3])
    assert len(list((tmp_path / "calls").glob("recorded-*.txt"))) == 2


@pytest.mark.usefixtures("engine")
def test_an_adapter_says_which_functions_of_classes_and_modules_are_calls(tmp_path):
    classes = importlib.import_module("classes_of_test")
    before = dict(vars(classes.Sampler))
    bonus = np.zeros(2, dtype=np.int32)
    with specsim.record(tmp_path / "calls", "classes_of_test") as recording:
        classes.Sampler.into(TOKENS, COUNTS, bonus)
        classes.Sampler().into(TOKENS, COUNTS, bonus)
        assert classes.Sampler().last(TOKENS, COUNTS) == [6, 7]
    assert dict(vars(classes.Sampler)) == before
    assert recording.tallies == {"fill_bonus_tokens": Tally(calls=3, not_understood=1)}
    assert [case.observed.outputs["bonus_tokens"].tolist() for case in recorded(tmp_path / "calls")] == [[6, 7]] * 2


def test_what_cannot_be_recorded_is_said_before_anything_is_replaced(engine, tmp_path):
    with pytest.raises(SpecRejection) as caught:
        recording_of(tmp_path, limit=0)
    assert caught.value.reason is Reason.SCALAR_OUT_OF_RANGE
    with pytest.raises(BackendUnavailable, match="has no function of an operation and no CALLS"):
        specsim.record(tmp_path, "specsim.counts")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="exists"):
        recording_of(tmp_path / "file").start()
    assert engine[0].fill_bonus_tokens is engine[1].fill_bonus_tokens


def test_the_name_stands_in_the_package_and_costs_its_import_nothing():
    code = "import specsim, sys; assert 'numpy' not in sys.modules; specsim.record; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
