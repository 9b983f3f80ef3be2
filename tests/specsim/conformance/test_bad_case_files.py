"""Case files from strangers: each fault is refused by one line that names it, and nothing else comes of any file."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from specsim.conformance import stored, stored_arrays
from specsim.conformance.cases import read_case, write_case
from specsim.conformance.outcomes import Observation
from specsim.rejection import Reason, SpecRejection
from tests.specsim.conformance.some_cases import bonus_case, make_case


def failing_case():
    return bonus_case(Observation(error="E: no"))


def large_case():
    values = np.arange(40000, dtype=np.float32).reshape(4, 10000)
    accept_index = np.array([[0, 2]], dtype=np.int32)
    return make_case("compact_accepted_to_front", Observation(error="E: no"), values=values, accept_index=accept_index)


def written(case, folder):
    path = write_case(case, folder)
    return path, json.loads(path.read_text())


def reason_for(path):
    with pytest.raises(SpecRejection) as caught:
        read_case(path)
    assert caught.value.reason is Reason.BAD_CASE_FILE
    assert str(caught.value).isprintable()
    return str(caught.value)


def nested(depth, inside=1):
    for _ in range(depth):
        inside = [inside]
    return inside


def tokens_of(document):
    return document["arrays"]["accept_tokens"]


FAULTS = {
    "both error and rejection": (
        lambda d: d["observed"].update(rejection="NAN_SCORE"),
        "observed with rejection and e",
    ),
    "neither": (lambda d: d["observed"].clear(), "observed with nothing, but should be one of"),
    "no error": (lambda d: d["observed"].update(error=""), "observed.error ''"),
    "no reason": (lambda d: d.update(observed={"rejection": "WEATHER"}), "observed.rejection WEATHER"),
    "half a token": (lambda d: tokens_of(d).update(values=[[5, 0.5], [7, 0]]), "values with 0.5, but should be int32"),
    "a float of no fraction": (lambda d: tokens_of(d).update(values=[[5, 6.0], [7, 0]]), "values with 6.0"),
    "a truth value": (lambda d: tokens_of(d).update(values=[[5, True], [7, 0]]), "values with true"),
    "a NaN among integers": (lambda d: tokens_of(d).update(values=[[5, "NaN"], [7, 0]]), 'values with "NaN"'),
    "another word": (lambda d: tokens_of(d).update(values=[[5, "1"], [7, 0]]), 'values with "1"'),
    "no entry": (lambda d: tokens_of(d).update(values=[[5, None], [7, 0]]), "values with null"),
    "an object as an entry": (lambda d: tokens_of(d).update(values=[[5, {}], [7, 0]]), "values with a dict"),
    "beyond the type": (lambda d: tokens_of(d).update(values=[[5, 2**31], [7, 0]]), "values with 2147483648"),
    "far beyond the type": (lambda d: tokens_of(d).update(values=[[5, 10**4000], [7, 0]]), "values with 10000"),
    "900 levels": (lambda d: tokens_of(d).update(values=nested(900)), "nested too deep"),
    "900 levels as an entry": (lambda d: tokens_of(d).update(values=[[5, nested(900)], [7, 0]]), "nested too deep"),
    "900 levels elsewhere": (lambda d: d.update(message=nested(900)), "nested too deep"),
    "objects": (lambda d: tokens_of(d).update(dtype="object"), "dtype object"),
    "another name of a type": (lambda d: tokens_of(d).update(dtype="i4"), "dtype i4"),
    "a product beyond memory": (lambda d: tokens_of(d).update(shape=[2**20, 2**20]), "bytes in all"),
    "a product beyond numbers": (lambda d: tokens_of(d).update(shape=[2**62, 2**62, 0]), "bytes in all"),
    "a negative size": (lambda d: tokens_of(d).update(shape=[-2, -2]), r"shape \[-2, -2\]"),
    "too many axes": (lambda d: tokens_of(d).update(shape=[1] * 17), "at most 16 sizes"),
    "an entry too few": (
        lambda d: tokens_of(d).update(values=[[5, 6], [7]]),
        "1 entries along axis 1, but should be 2",
    ),
    "neither values nor key": (lambda d: tokens_of(d).pop("values"), "neither values nor key"),
    "both values and key": (lambda d: tokens_of(d).update(key="k"), "both values and key"),
    "a key without a file": (lambda d: tokens_of(d).update(values=1, key=1), "Expected `str`, got `int`"),
    "a file without a key": (lambda d: d.update(arrays_file="x.safetensors"), "no array has a key"),
    "a path": (lambda d: d.update(arrays_file="../x.safetensors"), r"arrays_file '../x.safetensors'"),
    "an absolute path": (lambda d: d.update(arrays_file="/etc/passwd"), "arrays_file '/etc/passwd'"),
    "the folder above": (lambda d: d.update(arrays_file=".."), r"arrays_file '\.\.'"),
    "no file name": (lambda d: d.update(arrays_file="x\0"), r"arrays_file 'x\\x00'"),
    "an unknown field": (lambda d: d.update(command="rm"), "unknown field `command`"),
    "an unknown field inside": (lambda d: d["provenance"].update(module="os"), "unknown field `module`"),
    "an unknown array": (lambda d: d["arrays"].update(extra=None), r"arrays\.extra"),
    "a missing array": (lambda d: d["arrays"].pop("accept_tokens"), r"without arrays\.accept_tokens"),
    "a missing output": (lambda d: d["expected"]["outputs"].clear(), r"without expected\.outputs\.bonus_tokens"),
    "a null": (lambda d: d["observed"].update(error=None), "got `null`"),
    "a wider output": (
        lambda d: d["expected"]["outputs"]["bonus_tokens"].update(shape=[3], values=[6, 7, 0]),
        r"expected.outputs.bonus_tokens int32 \[3\], but should be int32 \[2\]",
    ),
    "outputs of a bad call": (
        lambda d: d["arrays"]["num_accepted_tokens"].update(values=[9, 1]),
        "the id",
    ),
    "a negative seed": (lambda d: d["provenance"].update(seed=-1), "provenance.seed -1"),
    "a long name": (lambda d: d.update(property="x" * 301), "property of 301 characters"),
    "a name in two lines": (lambda d: d.update(property="x\ny"), r"property 'x\\ny'"),
    "no name": (lambda d: d["provenance"].update(implementation=""), "provenance.implementation ''"),
    "a long message": (lambda d: d.update(message="x" * 20000), "message of 20,000 characters"),
    "half a character": (lambda d: d.update(message="\ud800"), "surrogates not allowed"),
    "an escape in a name": (lambda d: d.update({"\x1b[2J": 1}), r"unknown field `\\x1b\[2J`"),
    "too many versions": (
        lambda d: d["provenance"].update(versions={str(n): "1" for n in range(65)}),
        "provenance.versions with 65 entries",
    ),
    "a layout of other axes": (lambda d: tokens_of(d).update(layout=laid(strides=[1])), "1 strides for 2 axes"),
    "a layout before its block": (lambda d: tokens_of(d).update(layout=laid(offset=-1)), "from entry -1 to 2 of 4"),
    "a layout after its block": (lambda d: tokens_of(d).update(layout=laid(offset=1)), "from entry 1 to 4 of 4"),
    "a layout beyond memory": (lambda d: tokens_of(d).update(layout=laid(size=2**60)), "of a block of"),
    "a layout of one address": (lambda d: tokens_of(d).update(layout=laid(strides=[0, 1])), "addresses and differ"),
}


def laid(strides=(1, 2), offset=0, size=4):
    return {"strides": list(strides), "offset": offset, "size": size}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_by_name(fault, tmp_path):
    change, words = FAULTS[fault]
    path, document = written(failing_case(), tmp_path)
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(SpecRejection, match=words) as caught:
        read_case(path)
    assert caught.value.reason is Reason.BAD_CASE_FILE
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"seed": 7', '"seed": 7, "seed": 7', "the key 'seed' twice"),
        ('"seed": 7', '"seed": NaN', "NaN, which is no number of JSON"),
        ('"seed": 7', '"seed": ' + "9" * 5000, "does not parse"),
        ('"seed": 7', '"seed": ' + "[" * 100000, "nested too deep"),
        ('"seed": 7', '"seed": 7, "seed\x1b": 7', "does not parse"),
        ('"words"', '"\udcff"', "'utf-8' codec can't decode"),
    ],
)
def test_what_is_no_plain_json_is_refused(before, after, words, tmp_path):
    path, _ = written(failing_case(), tmp_path)
    content = path.read_text().replace(before, after)
    path.write_bytes(content.encode(errors="surrogateescape"))
    assert words in reason_for(path)


def test_outputs_are_expected_of_no_call_outside_the_domain(tmp_path):
    case = failing_case()
    case.arguments["num_accepted_tokens"][0] = 9
    path, _ = written(case, tmp_path)
    assert "expected.outputs of a call that is outside the domain" in reason_for(path)


def test_links_devices_and_pipes_are_not_read(tmp_path):
    path, _ = written(failing_case(), tmp_path)
    link, pipe = tmp_path / "link.json", tmp_path / "pipe.json"
    link.symlink_to(path)
    os.mkfifo(pipe)
    assert "is a link, but should be a file" in reason_for(link)
    for other in (pipe, Path("/dev/zero")):
        assert "is a device or a pipe, but should be a file" in reason_for(other)


def test_a_document_is_no_larger_than_it_may_be(tmp_path):
    path = tmp_path / "case.json"
    path.touch()
    os.truncate(path, stored.MOST_BYTES + 1)
    assert "at most 67,108,864" in reason_for(path)


def pipe_beside(path):
    path.unlink()
    os.mkfifo(path)


def link_beside(path):
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def longer_header(path):
    path.write_bytes((2**40).to_bytes(8, "little") + path.read_bytes()[8:])


def other_arrays(**arrays):
    return lambda path: save_file({name.replace("_", "."): array for name, array in arrays.items()}, path)


WIDE = np.zeros((4, 10000), dtype=np.float32)
BESIDE = {
    "nothing": (Path.unlink, "No such file"),
    "a pipe": (pipe_beside, "is a device or a pipe"),
    "a link": (link_beside, "is a link"),
    "a sparse terabyte": (lambda path: os.truncate(path, 2**40), "the document declares no more"),
    "half of it": (lambda path: os.truncate(path, 1000), "1,000 bytes, but should be at least"),
    "a bomb in its header": (longer_header, "a safetensors file"),
    "another type": (other_arrays(arrays_values=WIDE.view(np.int32), expected_outputs_compacted=WIDE), "is I32"),
    "another shape": (other_arrays(arrays_values=WIDE.T.copy(), expected_outputs_compacted=WIDE), "is F32 [10000, 4]"),
    "another array": (other_arrays(arrays_values=WIDE, more=WIDE), "a file with more"),
    "an array too few": (other_arrays(arrays_values=np.zeros((8, 10000), dtype=np.float32)), "is "),
}


@pytest.mark.parametrize("fault", BESIDE)
def test_a_file_beside_is_what_the_document_declares(fault, tmp_path):
    change, words = BESIDE[fault]
    path, _ = written(large_case(), tmp_path)
    change(path.with_suffix(".safetensors"))
    assert words in reason_for(path)


def test_a_key_is_named_once(tmp_path):
    path, document = written(large_case(), tmp_path)
    document["expected"]["outputs"]["compacted"]["key"] = document["arrays"]["values"]["key"]
    path.write_text(json.dumps(document))
    assert "it is named twice" in reason_for(path)


def test_nothing_is_allocated_for_what_is_declared(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_arrays, "MOST_BYTES", 1000)
    path, _ = written(large_case(), tmp_path)
    path.with_suffix(".safetensors").unlink()
    assert "at most 1,000 bytes in all" in reason_for(path)
