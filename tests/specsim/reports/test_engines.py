"""Stored results of engines: what is kept of a document, when it is stale, and what the page says of it."""

import json
from dataclasses import replace

import pytest

from specsim.properties.suite.catalogue import all_properties
from specsim.reports.engines import Result, keep, page, read_results

LAWS = [one.name for one in all_properties()]
DOCUMENT = {
    "implementation": "specsim.engines.vllm",
    "version": "0.33.0",
    "device": "CPU, interpreted",
    "versions": {"specsim": "0.1.0"},
    "seed": 3,
    "known": {"expected": [{"property": LAWS[1]}]},
    "properties": {
        name: {"examples": 0 if place > 3 else 5, "failed": place in (1, 2)} for place, name in enumerate(LAWS)
    },
}


def test_a_document_is_kept_by_what_held_what_failed_and_what_was_expected(tmp_path):
    file = tmp_path / "check.json"
    file.write_text(json.dumps(DOCUMENT))
    place = keep(file, tmp_path)
    assert place.name == "vllm-0.33.0-cpu-interpreted.json"
    file.unlink()
    (result,) = read_results(tmp_path)
    assert (result.held, result.failed, result.known) == ({LAWS[0]: 5, LAWS[3]: 5}, {LAWS[2]: 5}, {LAWS[1]: 5})
    assert (result.seed, result.specsim, len(result.missing)) == (3, "0.1.0", len(LAWS) - 4)


def test_a_document_of_another_command_is_refused():
    with pytest.raises(KeyError):
        Result.of({"properties": {}}, "2026-01-01")


def test_a_run_is_stale_once_the_adapter_or_the_suite_has_moved_on():
    result = Result.of(DOCUMENT, "2026-01-01")
    assert result.state() == "current"
    assert replace(result, version="0.32.0").state() == "stale: the adapter is written for 0.33.0"
    lacking = tuple(name for name in result.missing if name != "draft.topk_leaves_nothing_better")
    assert replace(result, missing=lacking).state() == "stale: 1 laws more by now"


def test_the_page_has_a_line_a_run_and_a_line_a_law_that_a_run_came_to():
    text = page([Result.of(DOCUMENT, "2026-01-01")])
    assert (
        f"| `vllm` | 0.33.0 | CPU, interpreted | 2026-01-01 | 3 | 20 | 2 | 1 | 1 | {len(LAWS) - 4} | current |" in text
    )
    assert text.count("held 5") == 2 and text.count("**failed**") == 1 and text.count("| known |\n") == 1
    assert f"`{LAWS[3]}`" in text and f"`{LAWS[4]}`" not in text
