"""Files of strangers cost what they hold: no more time than is linear, no more memory than is declared and there."""

import json
import struct
import time
import tracemalloc

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.cases import Case, read_case, write_case
from specsim.conformance.limits import BadLimits, limits_of
from specsim.conformance.outcomes import Observation, observe
from specsim.conformance.plain_text import bounded, printable, said, words_of
from specsim.conformance.stored import Provenance, parse_json
from specsim.operations import RECORDS
from specsim.properties.suite.catalogue import properties_by_name
from specsim.properties.suite.conformance.running import explore
from specsim.rejection import SpecRejection

SIZE = 1 << 25


def test_a_key_that_stands_twice_is_found_in_linear_time(tmp_path):
    keys = [f"key {number}" for number in range(200_000)]
    content = "{" + ", ".join(f'"{key}": 0' for key in [*keys, keys[-1]]) + "}"
    began = time.process_time()
    with pytest.raises(SpecRejection, match="the key 'key 199999' twice"):
        parse_json(tmp_path / "case.json", content.encode())
    assert time.process_time() - began < 5.0


def sparse_case(folder, declared, there):
    """Write a case whose document declares so many bytes in the file beside, of which nothing is on the disk."""
    given = {"values": np.zeros((1, 2), np.int8), "accept_index": np.zeros((1, 1), np.int32)}
    expected = observe(load("specsim.reference"), "compact_accepted_to_front", given)
    name = "agreement.compact_accepted_to_front"
    case = Case("compact_accepted_to_front", name, given, expected, expected, "no", Provenance("m", 1))
    path = write_case(case, folder)
    document = json.loads(path.read_text())
    document["arrays_file"] = "sparse.safetensors"
    document["arrays"]["values"] = {"dtype": "int8", "shape": [1, declared], "key": "values"}
    path.write_text(json.dumps(document))
    entry = {"dtype": "I8", "shape": [1, there], "data_offsets": [0, there]}
    header = json.dumps({"values": entry}).encode()
    with (folder / "sparse.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + there)
    return path


@pytest.mark.parametrize(("there", "most"), [(SIZE, 1.6), (SIZE + 4096, 0.2), (SIZE - 4096, 0.2), (16, 0.2)])
def test_memory_is_taken_for_what_is_declared_and_there_once(tmp_path, there, most):
    path = sparse_case(tmp_path, SIZE, there)
    tracemalloc.start()
    try:
        with pytest.raises(SpecRejection, match="BAD_CASE_FILE"):
            read_case(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most * SIZE


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header[:-1],
        lambda header: header.replace(b'"I8"', b'"I16"'),
        lambda header: header.replace(b"[0, 64]", b"[0, 63]"),
        lambda header: header.replace(b"[0, 64]", b"[1, 65]"),
        lambda header: header.replace(b"[0, 64]", b"[-1, 63]"),
        lambda header: b"[]",
        lambda header: b"\xff" * 10,
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path, change):
    path = sparse_case(tmp_path, 64, 64)
    beside = tmp_path / "sparse.safetensors"
    content = beside.read_bytes()
    header = change(content[8:-64])
    beside.write_bytes(struct.pack("<Q", len(header)) + header + content[-64:])
    with pytest.raises(SpecRejection, match=r"sparse\.safetensors"):
        read_case(path)


@pytest.mark.parametrize("operation", RECORDS)
def test_what_is_written_of_every_strategy_is_read(tmp_path, operation):
    """A strategy may draw arguments in another order than the call's; the case is the same."""
    seen = []
    explore(properties_by_name()[f"agreement.{operation}"], lambda case: seen.append(case), 1, 1)  # noqa: PLW0108
    arguments = dict(seen[0])
    case = Case(
        operation,
        f"agreement.{operation}",
        arguments,
        observe(load("specsim.reference"), operation, arguments),
        Observation(error="wrong"),
        "wrong",
        Provenance("m", 1),
    )
    assert read_case(write_case(case, tmp_path)).id == case.id


class Odd(Exception):
    """Makes no message."""

    def __str__(self):
        raise SystemExit(3)


class Text(str):
    """A text whose methods are a stranger's."""

    def __len__(self):
        return 0

    __str__ = __repr__ = lambda self: self


def test_words_of_strangers_are_cut_and_escaped():
    assert words_of(Odd()) == "Odd, whose message cannot be had"
    assert len(words_of(ValueError("x" * 50_000_000))) < 20_000
    assert type(bounded(Text("no"))) is str
    assert printable("a\tb\n\x1b[2J\u202e") == "a\tb\n\\x1b[2J\\u202e"
    assert said("x" * 10_000_000) == "x" * 200 + " …"
    assert said(Odd) == repr(Odd)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"LIMITS": {"build_tree": {"node": (10**9, 10**10)}}}, "'node'] begins at 1,000,000,000, but should begin at"),
        ({"LIMITS": {"x" * 50_000_000: {}}}, "but should name an operation"),
        ({"LIMITS": {"\x1b[2J": {}}}, "names '\\x1b[2J', but should name an operation"),
        ({"EMPTY": "x" * 50_000_000}, "but should be True or False"),
    ],
)
def test_limits_that_make_no_sense_are_reported_with_their_name(declared, words):
    with pytest.raises(BadLimits) as refused:
        limits_of(declared, "m")
    assert words in str(refused.value)
    assert len(str(refused.value)) < 1000 and str(refused.value).isprintable()
