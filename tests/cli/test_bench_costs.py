"""``specsim bench --costs``: what is refused, and the file that is written."""

import json

import pytest

from specsim.cli.benching import costs
from specsim.tuning.costs import parse_costs
from tests.specsim.tuning.test_costs import FILE, parsed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--costs", "costs.json", "--all"), "--costs says what is timed, as --all does"),
        (("--costs", "costs.json", "--batch", 4), "--costs says what is timed, as --batch does"),
        (("--model", "a:b"), "--model is that of --costs, and there is none"),
        (("--costs", "costs.json", "--model", "a"), "--model is a, but should be MODULE:NAME, such as my_model:build"),
        (("--costs", "no/costs.json"), "--costs no/costs.json: No such file or directory"),
    ],
)
def test_bad_input_is_one_line(specsim, options, message):
    got = specsim("bench", *options)
    assert (got.exit_code, got.stdout, got.stderr) == (2, "", f"specsim: {message}\n")


def test_costs_need_a_gpu(specsim, monkeypatch):
    monkeypatch.setattr(costs, "choose_device", lambda: "CPU, interpreted")
    got = specsim("bench", "--costs", "costs.json")
    message = "specsim: costs are measured on a GPU, and the device here is CPU, interpreted\n"
    assert (got.exit_code, got.stdout, got.stderr) == (4, "", message)


def test_the_file_of_a_model_of_a_user_is_written(specsim, tmp_path, monkeypatch):
    """The measuring itself runs on a toy in tests/gpu/bench/test_costs.py."""
    (tmp_path / "tiny_model_of_costs.py").write_text("def build():\n    return 'the model'\n")
    monkeypatch.setattr(costs, "choose_device", lambda: "a GPU")
    seen = []
    monkeypatch.setattr(
        "specsim.tuning.measuring.measured_costs", lambda model, on_progress: seen.append(model) or parsed(FILE)
    )

    def bench(name, *more):
        monkeypatch.setenv("TRITON_INTERPRET", "0")
        return specsim("bench", "--costs", "costs.json", "--model", f"tiny_model_of_costs:{name}", *more)

    got = bench("build")
    assert got.exit_code == 0, got.output
    assert got.stdout.splitlines()[-1] == "whole iterations are off by 1.0% at most from the sum of their parts"
    assert seen == ["the model"]
    assert parse_costs((tmp_path / "costs.json").read_bytes()) == parsed(FILE)
    assert json.loads(bench("build", "--json").stdout)["iteration_times"]["rest"]["iteration"] == 0.0001
    absent = bench("other")
    message = "--model is tiny_model_of_costs:other, but tiny_model_of_costs has no function other"
    assert (absent.exit_code, absent.stderr) == (2, f"specsim: {message}\n")
