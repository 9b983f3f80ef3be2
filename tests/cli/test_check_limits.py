"""What a module declares not to do is told as excluded, and ignored on demand."""

import json

import pytest

SOURCE = """
from specsim import reference

LIMITS = {"map_hot_tokens": {"draft_vocab": (1, 4)}}
EMPTY = False
CONTIGUOUS = True

def map_hot_tokens(topk_index, hot_token_id):
    if len(hot_token_id) > 4 or not topk_index.flags.c_contiguous:
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
        "map_hot_tokens with another draft_vocab than 1 to 4",
    ]
    of_properties = document["excluded"]["properties"]
    assert of_properties["empty.map_hot_tokens"] == {"whole": True, "examples": {"an empty batch": 1}}
    assert of_properties["strided.map_hot_tokens"]["whole"]
    assert document["properties"]["agreement.map_hot_tokens"]["examples"] == 10
    assert "agreement.map_hot_tokens" not in of_properties


def test_declarations_can_be_ignored(specsim, module):
    name = module(SOURCE)
    options = ("--examples", 10, "--seed", 3, "--operation", "map_hot_tokens")
    got = specsim("check", name, *options, "--strict")
    assert got.exit_code == 1
    assert "FAILURE of map_hot_tokens: strided.map_hot_tokens" in got.stdout
    assert "excluded" not in got.stdout
    inside = specsim("check", name, *options)
    assert inside.exit_code == 0
    assert "excluded: strided.map_hot_tokens, because of strided arguments" in inside.stdout
    assert "excluded: an empty batch; examples not tried: 2" in inside.stdout
    assert inside.stdout.splitlines()[-1].startswith("conforms: ")


def test_a_declaration_that_makes_no_sense_is_one_line(specsim, module):
    name = module(SOURCE.replace('"draft_vocab"', '"vocab"'))
    got = specsim("check", name)
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr.startswith(f"specsim: {name}.LIMITS['map_hot_tokens']['vocab'] is no axis or scalar: ")
    assert len(got.stderr.splitlines()) == 1
