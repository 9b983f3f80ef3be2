import json

import pytest

SAMPLER = "tree_speculative_sampling_target_only_without_coins"
SOURCE = f"""
import numpy as np
from specsim import reference

def {SAMPLER}(seed, **arguments):
    random = np.random.default_rng(seed)
    coins = random.random(arguments["candidates"].shape, dtype=np.float32)
    final = random.random(len(coins), dtype=np.float32)
    return reference.tree_speculative_sampling_target_only(
        uniform_samples=BIAS(coins), uniform_samples_for_final_sampling=final, **arguments
    )
"""
HONEST = "BIAS = lambda coins: coins\n"
BIASED = "BIAS = lambda coins: coins * np.float32(0.5)\n"
FEW = "MAX_SAMPLES = 80\n"
ENOUGH = "MAX_SAMPLES = 400\n"
"""Few enough that the failure is shrunk in seconds."""


@pytest.fixture
def module(tmp_path, request):
    """Return a function that writes a module whose name no other test uses."""

    def write(source):
        name = f"drawing_{request.node.name}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


def test_an_honest_sampler_without_coins_conforms(specsim, module):
    got = specsim("check", module(SOURCE + HONEST), "--examples", 15, "--seed", 3)
    assert got.exit_code == 0, got.output
    assert "2 properties held, 0 failed" in got.stdout


def test_a_biased_sampler_without_coins_fails(specsim, module):
    name = module(SOURCE + BIASED + ENOUGH)
    got = specsim("check", name, "--examples", 15, "--seed", 3, "--json")
    assert got.exit_code == 1
    failure = json.loads(got.stdout)["failures"][0]
    assert failure["property"] == "sampling_frequency_law.tree_frequencies_fit_the_targets_law"
    assert "chi-square = " in failure["message"]


def test_too_few_samples_are_inconclusive(specsim, module):
    got = specsim("check", module(SOURCE + HONEST + FEW), "--examples", 15, "--seed", 3)
    assert got.exit_code == 3
    assert "INCONCLUSIVE: sampling_frequency_law.tree_frequencies_fit_the_targets_law" in got.stdout
    assert "80 samples notice w = 0.15 with chance " in got.stdout
    assert got.stdout.splitlines()[-1].startswith("inconclusive: ")


def test_the_form_can_be_selected_by_name(specsim, module):
    got = specsim("check", module(SOURCE + HONEST), "--examples", 5, "--seed", 3, "--operation", SAMPLER, "--json")
    assert got.exit_code == 0, got.output
    assert list(json.loads(got.stdout)["properties"]) == [
        "sampling_frequency_law.tree_frequencies_fit_the_targets_law",
        "sampling_frequency_law.trees_accept_no_fewer_drafts_than_token_by_token",
    ]


def test_the_form_is_reached_by_the_name_of_its_operation(specsim, module):
    options = ("--examples", 5, "--seed", 3, "--operation", "tree_speculative_sampling")
    got = specsim("check", module(SOURCE + HONEST), *options, "--json")
    document = json.loads(got.stdout)
    assert (got.exit_code, document["verdict"]) == (0, "conforms")
    assert document["operations"][SAMPLER]["examples"] == 2
    assert list(document["not_seen"]) == [SAMPLER]
    assert document["not_seen"][SAMPLER][0].startswith("a coin of exactly 0")
