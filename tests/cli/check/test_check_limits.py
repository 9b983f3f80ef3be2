"""What a module declares not to do is reported as excluded, and ignored on demand."""

import json

import pytest

SOURCE = """
import os
from specsim import reference

LIMITS = {"map_hot_tokens": {"draft_vocab": (1, 4)}}
EMPTY = False
CONTIGUOUS = True

def map_hot_tokens(topk_index, hot_token_id):
    if len(hot_token_id) > 4:
        os._exit(7)
    if not (topk_index.flags.c_contiguous and hot_token_id.flags.c_contiguous):
        raise ValueError("too much")
    return reference.map_hot_tokens(topk_index, hot_token_id)
"""


@pytest.fixture
def module(tmp_path, request):
    """Return a function that writes a module whose name no other test uses."""

    def write(source):
        name = f"limited_{request.node.name}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


def test_what_is_declared_is_excluded(specsim, module):
    got = specsim("check", module(SOURCE), "--examples", 10, "--seed", 3, "--json")
    document = json.loads(got.stdout)
    assert (got.exit_code, document["verdict"]) == (0, "conforms"), document["failures"]
    assert document["excluded"]["declared"] == [
        "an empty batch",
        "strided arguments",
        "map_hot_tokens with draft_vocab outside 1 to 4",
    ]
    beyond = document["excluded"]["beyond"]
    assert beyond["an empty batch"] == "map_hot_tokens: right answer"
    assert beyond["strided arguments"] == "map_hot_tokens: rejects cleanly (ValueError: too much)"
    assert beyond["map_hot_tokens with draft_vocab outside 1 to 4"].endswith("crashes (the process ends with 7)")
    of_properties = document["excluded"]["properties"]
    assert of_properties["empty.map_hot_tokens"] == {"whole": True, "examples": {"an empty batch": 1}}
    assert of_properties["strided.map_hot_tokens"]["whole"]
    assert document["properties"]["agreement.map_hot_tokens"]["examples"] == 10
    assert "agreement.map_hot_tokens" not in of_properties


def test_only_operations_that_were_chosen_are_tried_beyond_a_limit(specsim, module):
    both = f"{SOURCE}\nfill_bonus_tokens = reference.fill_bonus_tokens\n"
    options = ("--examples", 1, "--seed", 3, "--operation", "fill_bonus_tokens")
    document = json.loads(specsim("check", module(both), *options, "--json").stdout)
    assert document["excluded"]["beyond"]["an empty batch"] == "fill_bonus_tokens: right answer"


def test_declarations_can_be_ignored(specsim, module, tmp_path):
    name = module(SOURCE)
    options = ("--examples", 10, "--seed", 3, "--operation", "map_hot_tokens")
    (tmp_path / f"{name}.py").write_text(SOURCE.replace("os._exit(7)", "raise ValueError"))
    got = specsim("check", name, *options, "--strict")
    assert got.exit_code == 1
    assert "FAILURE of map_hot_tokens: strided.map_hot_tokens" in got.stdout
    assert "excluded" not in got.stdout


def test_a_declaration_that_makes_no_sense_is_one_line(specsim, module):
    name = module(SOURCE.replace('"draft_vocab"', '"vocab"'))
    got = specsim("check", name)
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr.startswith(f"specsim: {name}.LIMITS['map_hot_tokens']['vocab'] is no axis or scalar: ")
    assert len(got.stderr.splitlines()) == 1
