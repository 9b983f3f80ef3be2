"""A module that brings a worker and nothing else: each command runs that worker, and finds what is wrong with it."""

import shutil
from pathlib import Path

import pytest

from specsim.properties.suite.catalogue import all_properties

EXAMPLES = str(Path(__file__).parents[3] / "docs" / "examples")
MODULE = """
import sys
from dataclasses import replace

sys.path.append({examples!r})
from my_worker import ChainWorker
from specsim.reference.worker.v1 import ReferenceWorkerV1


class Zeroed({base}):
    def decode(self, *arguments):
        iteration = super().decode(*arguments)
        tokens = iteration.tokens.copy()
        tokens[:, :1] = 0
        return replace(iteration, tokens=tokens)


{attribute}
"""
KINDS = {
    "WORKER": ("ChainWorker", "WORKER = {build}", "v2-page4-topk1-mha", "engine.output_equals_autoregressive_decoding"),
    "WORKER_V1": (
        "ReferenceWorkerV1",
        "WORKER_V1 = {build}",
        "v1-page4-topk1-mha",
        "worker_v1.output_equals_autoregressive_decoding",
    ),
    "WORKERS": (
        "ChainWorker",
        'WORKERS = {{"standalone_v2": {build}}}',
        "standalone-v2-page4-topk1-mha",
        "draft_sides_engine.drafts_are_right_as_far_as_they_know",
    ),
}
REFUSED = {
    "my_worker": (
        "logprobs_engine.tokens_are_told_of_as_plain_decoding_would",
        "pool_kinds.all_of_an_entry_moves",
        "ruled_engine.rows_are_handed_on_without_what_they_knew",
        "swa_engine.windows_change_no_token",
    ),
    "my_drafter": (
        "logprobs_engine.tokens_are_told_of_as_plain_decoding_would",
        "pool_kinds.all_of_an_entry_moves",
    ),
}
"""Laws whose every run a module refuses, which shows only after hundreds are drawn, each of them long."""


@pytest.mark.slow
@pytest.mark.parametrize(("is_right", "code"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_each_command_runs_a_worker_that_stands_alone(specsim, tmp_path, kind, is_right, code):
    base, attribute, cell, law = KINDS[kind]
    attribute = attribute.format(build=base if is_right else "Zeroed")
    name = f"{kind.lower()}_{'right' if is_right else 'wrong'}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(examples=EXAMPLES, base=base, attribute=attribute))
    commands = (
        ("check", name, "--property", law, "--examples", 9, "--slow-examples", 3),
        ("soak", name, "--steps", 20, "--replays", 5),
        ("matrix", name, "--cell", cell, "--history", 0, "--replays", 5),
    )
    for command in commands:
        got = specsim(*command, "--seed", 1, "--jobs", 1)
        assert got.exit_code == code, (command, got.stdout, got.stderr)
        assert got.stdout.splitlines()[-1].startswith("conforms: " if is_right else "fails: ")
        if is_right:
            assert f"ran of {name}: workers " in got.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "what"), [("my_worker", "workers"), ("my_drafter", "workers"), ("my_scheduler", "schedulers")]
)
def test_what_the_pages_show_whole_conforms(specsim, tmp_path, name, what):
    shutil.copy(Path(EXAMPLES, f"{name}.py"), tmp_path)
    laws = [f"--property={one.name}" for one in all_properties() if one.name not in REFUSED.get(name, ())]
    got = specsim("check", name, "--examples", 2, "--slow-examples", 3, "--seed", 4, "--jobs", 1, *laws)
    assert got.exit_code == 0, (got.stdout, got.stderr)
    assert got.stdout.splitlines()[-1].startswith("conforms: ")
    assert f"ran of {name}: {what} " in got.stdout
