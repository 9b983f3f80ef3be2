"""Input that a module does not promise to refuse: what it does is reported, and leaving its bounds fails if strict."""

import json
from xml.etree import ElementTree

import pytest

HEAD = """
import os, time
import numpy as np
from specsim import reference


def top_k_renorm_out(probabilities, top_k, out):
    if np.isnan(probabilities).any():
        {fault}
        return
    out[...] = reference.top_k_renorm(probabilities, top_k)
"""
PAST_THE_END = "np.lib.stride_tricks.as_strided(out, (out.size + 1,), (out.itemsize,))[-1] = 7"
LINE = "unpromised: top_k_renorm, "
OPTIONS = ("--operation", "top_k_renorm", "--examples", 10, "--seed", 1)

OUT_OF_VOCABULARY = """
import numpy as np
from specsim import reference


def chain_speculative_sampling(**arguments):
    if not np.isfinite(arguments["target_probs"]).all() or (arguments["draft_tokens"] < -1).any():
        count, most = len(arguments["cu_num_drafts"]) - 1, arguments["max_num_drafts"]
        return np.full((count, most + 1), {token}, dtype=np.int32), np.full(count, {count}, dtype=np.int32)
    return reference.chain_speculative_sampling(**arguments)
"""


@pytest.fixture
def module(tmp_path, request):
    """Return a function that writes a module whose name no other test uses."""

    def write(source):
        name = f"planted_{request.node.name.replace('[', '_').replace(']', '').replace('-', '_')}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


def unpromised(got, operation="top_k_renorm"):
    return json.loads(got.stdout)["unpromised"][operation]


def test_who_stays_inside_conforms_strictly_too(specsim, module):
    name = module(HEAD.format(fault="out[...] = np.nan"))
    got = specsim("check", name, *OPTIONS, "--strict")
    assert got.exit_code == 0
    (line,) = [line for line in got.stdout.splitlines() if "unpromised" in line]
    assert line.startswith(LINE) and line.endswith("none left its bounds")


def test_who_writes_outside_its_outputs_is_reported_and_fails_a_strict_run(specsim, module):
    name = module(HEAD.format(fault=PAST_THE_END))
    got = specsim("check", name, *OPTIONS)
    words = "with NaN in probabilities the memory around renormalised = 7.0 at "
    assert got.exit_code == 0
    assert any(line.startswith(LINE) and words in line for line in got.stdout.splitlines())
    got = specsim("check", name, *OPTIONS, "--strict")
    assert got.exit_code == 1
    assert any(line.startswith(f"FAILED {LINE}") and words in line for line in got.stdout.splitlines())
    assert got.stdout.splitlines()[-1].startswith("fails: ")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("probabilities[...] = 0", "probabilities = 0.0 at "),
        ("os._exit(7)", "crashed: "),
        ("time.sleep(60)", "timed out: "),
    ],
    ids=["argument", "crash", "hang"],
)
def test_other_ways_to_leave_are_named(specsim, module, fault, words):
    name = module(HEAD.format(fault=fault))
    options = (*OPTIONS, "--call-timeout", 2, "--json")
    got = specsim("check", name, *options)
    assert (got.exit_code, json.loads(got.stdout)["verdict"]) == (0, "conforms")
    assert words in unpromised(got)["strayed"]
    got = specsim("check", name, *options, "--strict")
    assert (got.exit_code, json.loads(got.stdout)["verdict"]) == (1, "fails")
    assert json.loads(got.stdout)["failures"] == []


@pytest.mark.parametrize(
    ("token", "count", "words"),
    [
        (-5, 0, "output_tokens[0, 0] = -5, but should be 0 to "),
        (2**30, 0, "output_tokens[0, 0] = 1073741824, but should be 0 to "),
        (0, 99, "num_accepted_drafts[0] = 99, but should be 0 to "),
        (-1, 0, ""),
    ],
    ids=["below", "above", "count", "none"],
)
def test_tokens_are_of_the_vocabulary_and_counts_of_their_rows(specsim, module, token, count, words):
    name = module(OUT_OF_VOCABULARY.format(token=token, count=count))
    operation = "chain_speculative_sampling"
    got = specsim("check", name, "--operation", operation, "--examples", 10, "--seed", 1, "--json")
    one = unpromised(got, operation)
    assert words in one["strayed"] and bool(words) == bool(one["strayed"])
    assert one["calls"] > 0


def test_who_promises_to_refuse_is_held_to_that_alone(specsim):
    got = specsim("check", "specsim.reference", *OPTIONS, "--strict", "--json")
    assert json.loads(got.stdout)["unpromised"] == {}


def test_a_strict_run_has_a_test_of_each_operation(specsim, module, tmp_path):
    name = module(HEAD.format(fault=PAST_THE_END))
    specsim("check", name, *OPTIONS, "--strict", "--junit", tmp_path / "junit.xml")
    cases = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")
    (case,) = [case for case in cases if case.get("name") == "unpromised.top_k_renorm"]
    (failure,) = case.findall("failure")
    assert "the memory around renormalised" in failure.get("message")
