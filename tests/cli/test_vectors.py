"""``specsim vectors``: the files suffice to judge, are the same for a seed, and take the place of vectors alone."""

import json
from collections import Counter
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

from specsim.cli.main import main
from specsim.conformance.backend import load
from specsim.conformance.cases import case_arguments
from specsim.conformance.piping.frames import unpack
from specsim.operations import RECORDS
from specsim.properties.operations.generated.margin_cases import near_boundaries
from specsim.reference.margins import MARGINS
from specsim.rejection import SpecRejection
from specsim.vectors.worked import worked_calls

OPERATIONS = ("verify_tree_greedy", "move_kv_cache", "chain_speculative_sampling", "tree_attention", "top_p_renorm")
"""With undefined entries, with lists that are written in place, with coins, with bounds of two kinds."""

CHOSEN = tuple(f"--operation={name}" for name in OPERATIONS)
NUM_CASES = 8


def content_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    for operation, entry in manifest["operations"].items():
        arrays = unpack((folder / entry["files"]["arrays"]).read_bytes())
        cases = json.loads((folder / entry["files"]["cases"]).read_text())["cases"]
        for number, case in enumerate(cases):
            yield operation, case, partial(array_of, arrays, number)


def array_of(arrays, number, kind, label):
    return arrays.get(f"{number}/{kind}/{label}")


def arguments_of(operation, case, array):
    arguments = dict(case["scalars"])
    for spec in RECORDS[operation].contract.arrays:
        labels = [one for one in case["arguments"] if one.partition(".")[0] == spec.name]
        given = [array("arguments", label) for label in labels]
        if given or spec.each:
            arguments[spec.name] = given if spec.each else given[0]
    return arguments


def first_wrong(case, array, outputs):
    """Judge outputs by nothing but the files, as the page says."""
    for label in case["expected"]:
        expected, tolerance = array("expected", label), array("tolerance", label)
        name, _, place = label.partition(".")
        got = outputs[name][int(place)] if place else outputs[name]
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        is_right = (got == expected) | ((got != got) & (expected != expected))
        if tolerance is not None:
            with np.errstate(invalid="ignore"):
                is_right |= np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= tolerance
        if not is_right[array("defined", label)].all():
            return label
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "out"
    got = CliRunner().invoke(main, ["vectors", str(path), *CHOSEN, "--cases", str(NUM_CASES), "--seed", "1"])
    assert got.exit_code == 0, got.output
    assert got.stdout.splitlines()[-1].endswith(f" rejections of {len(OPERATIONS)} operations in {path}, seed 1")
    return path


def outputs_of(operation, case, array):
    outputs = load("specsim.reference").run(operation, arguments_of(operation, case, array)).outputs
    return {name: value for name, value in outputs.items() if value is not None}


def test_the_files_suffice_to_judge_the_reference(folder):
    for operation, case, array in read(folder):
        if "rejection" not in case:
            assert first_wrong(case, array, outputs_of(operation, case, array)) is None, operation


def test_what_is_off_by_more_than_the_tolerance_is_found_and_what_is_undefined_is_not(folder):
    found = dict.fromkeys(OPERATIONS, 0)
    for operation, case, array in read(folder):
        if "rejection" in case:
            continue
        for label in case["expected"]:
            name, _, place = label.partition(".")
            for is_defined in (False, True):
                outputs = outputs_of(operation, case, array)
                changed = outputs[name][int(place)] if place else outputs[name]
                where = array("defined", label) if is_defined else ~array("defined", label)
                changed[where] = changed[where] * changed.dtype.type(1.01) + changed.dtype.type(1)
                is_wrong = first_wrong(case, array, outputs) is not None
                assert is_wrong == bool(is_defined and (changed[where] != array("expected", label)[where]).any())
                found[operation] += is_wrong
    assert min(found.values()) > 0


def test_what_is_to_be_refused_has_the_reason(folder):
    reasons = set()
    for operation, case, array in read(folder):
        if "rejection" in case:
            with pytest.raises(SpecRejection) as raised:
                load("specsim.reference").run(operation, arguments_of(operation, case, array))
            assert raised.value.reason.name == case["rejection"]
            reasons.add(case["rejection"])
    assert len(reasons) > 2


def test_decisions_within_rounding_are_left_out_and_counted(folder):
    entries = json.loads((folder / "manifest.json").read_text())["operations"]
    assert entries["chain_speculative_sampling"]["left_out"]["a decision within rounding of its boundary"] > 0
    for operation, case, array in read(folder):
        if operation in MARGINS and "rejection" not in case:
            assert (MARGINS[operation](case_arguments(operation, arguments_of(operation, case, array))) >= 1).all()


def test_every_worked_example_is_there_that_no_margin_leaves_out(folder):
    sources = Counter(operation for operation, case, _ in read(folder) if case["source"] == "worked example")
    for operation in OPERATIONS:
        calls = [case_arguments(operation, one) for one in worked_calls().get(operation, ())]
        near = [near_boundaries(operation, one) for one in calls]
        assert sources[operation] == sum(one is None or not one.any() for one in near)
    assert sources["verify_tree_greedy"] > 1


def test_the_manifest_has_the_contract_as_data(folder):
    entry = json.loads((folder / "manifest.json").read_text())["operations"]["move_kv_cache"]
    assert entry["written_in_place"] == ["kv_buffers"]
    buffers = {
        "kind": "list of arrays",
        "length": "buffer",
        "dtype": "any",
        "shape": ["slot", "..."],
        "unit": "tag word",
    }
    slots = {"kind": "array", "dtype": "int64", "shape": ["pair"], "unit": "slot", "low": "0", "high": "slot-1"}
    assert entry["arguments"][:2] == [{"name": "kv_buffers", **buffers}, {"name": "target_slots", **slots}]


def test_a_seed_gives_the_same_bytes_and_takes_the_place_of_older_vectors(specsim, tmp_path):
    folder, chosen = tmp_path / "out", ("--operation", "fill_bonus_tokens", "--cases", 3)
    assert specsim("vectors", folder, *chosen, "--seed", 1).exit_code == 0
    first = content_of(folder)
    assert specsim("vectors", folder, "--operation", "fast_topk", "--cases", 1).exit_code == 0
    assert content_of(folder).keys() == {"manifest.json", "fast_topk.json", "fast_topk.safetensors"}
    assert specsim("vectors", folder, *chosen, "--seed", 1).exit_code == 0
    assert content_of(folder) == first
    assert specsim("vectors", folder, *chosen, "--seed", 2).exit_code == 0
    assert content_of(folder) != first


def test_a_folder_of_something_else_is_left_alone(specsim, tmp_path):
    (tmp_path / "thesis.tex").write_text("years")
    got = specsim("vectors", tmp_path)
    line = f"specsim: {tmp_path} has thesis.tex, but should be empty or hold nothing but vectors\n"
    assert (got.exit_code, got.stdout, got.stderr) == (2, "", line)
    assert content_of(tmp_path) == {"thesis.tex": b"years"}


def test_the_json_document_counts(specsim):
    got = specsim("vectors", "out", "--operation", "fill_bonus_tokens", "--cases", 2, "--json")
    counts = json.loads(got.stdout)["operations"]["fill_bonus_tokens"]
    assert counts.keys() == {"num_cases", "num_rejections", "left_out"}
