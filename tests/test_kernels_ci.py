"""The workflow of docs/examples runs as it stands, from an empty environment to its verdict."""

import shutil

import pytest

from tests.installed import INDEX_OF_CPU_BUILDS, ROOT, STEPS, WORKFLOW, install

MOST_BYTES = 1_200_000_000
"""What a run without a GPU may download; with CUDA's libraries it is more than twice as much."""


def test_the_steps_are_those_that_are_tried():
    assert list(STEPS) == ["Install", "Say what is there", "Check the kernels"]
    assert INDEX_OF_CPU_BUILDS in STEPS["Install"]


def test_the_page_installs_as_the_workflow_does():
    page = (ROOT / "docs" / "check-your-kernels.md").read_text(encoding="utf-8")
    commands = [
        line.partition(" #")[0].strip() for line in STEPS["Install"].replace("./specsim-source", ".").splitlines()
    ]
    assert [command for command in commands if f"\n{command} " not in page] == []


@pytest.mark.slow
@pytest.mark.first
def test_the_workflow_runs_from_an_empty_environment_to_its_verdict(tmp_path):
    """What the install step downloads is measured, by the sizes of all that pip took from an index."""
    installed = install("newest")
    assert {"torch", "triton", "numpy", "scipy", "hypothesis"} <= installed.downloads.keys()
    assert sum(installed.downloads.values()) <= MOST_BYTES, installed.downloads
    for name in ("my_kernels.py", "known.toml"):
        shutil.copy(WORKFLOW.parent / name, tmp_path)
    for name, step in STEPS.items():
        if name != "Install":
            ended = installed.run(step, tmp_path)
            assert ended.returncode == 0, ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("conforms: "), ended.stdout
