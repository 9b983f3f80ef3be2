"""Case files in which anything is changed: each is refused by one line, or is a case that can be replayed."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specsim.conformance import stored
from specsim.conformance.cases import read_case, replay_case, write_case
from specsim.conformance.outcomes import Observation
from specsim.conformance.stored_laws import StoredLaw
from specsim.rejection import Reason, SpecRejection
from tests.specsim.conformance.some_cases import ORACLE, bonus_case, make_case

DOCUMENTS = ("fast_topk", "fill_bonus_tokens", "move_kv_cache", "a view", "a law")


def nested(depth):
    inside = 1
    for _ in range(depth):
        inside = [inside]
    return inside


def failing_case():
    return bonus_case(Observation(error="E: no"))


def as_written(name, folder):
    if name == "a view":
        return write_case(
            make_case(
                "fill_bonus_tokens",
                accept_tokens=np.array([[5, 7], [6, 0]], dtype=np.int32).T,
                num_accepted_tokens=np.array([2, 1], dtype=np.int32),
            ),
            folder,
        )
    if name == "a law":
        law = StoredLaw({"tree": [[1, "1/2"], None]}, (("0", "1/2"),), (1,), (2,))
        return write_case(replace(failing_case(), law=law), folder)
    if name == "fast_topk":
        values = np.array([[np.nan, -np.inf, 0.1]], dtype=np.float32)
        return write_case(make_case("fast_topk", values=values, k=1), folder)
    if name == "move_kv_cache":
        slots = np.array([1], dtype=np.int64)
        buffers = [np.array([[1], [2]], dtype=dtype) for dtype in ("uint8", "float16", "bool")]
        return write_case(make_case(name, kv_buffers=buffers, target_slots=slots, source_slots=slots - 1), folder)
    return write_case(failing_case(), folder)


def places_in(value, place=()):
    yield place
    if isinstance(value, dict | list):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(inside, (*place, key))


STRANGE = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            0,
            -1,
            0.5,
            1e308,
            2**31,
            2**63,
            2**64,
            "",
            "NaN",
            "Infinity",
            "int8",
            "bool",
            "\ud800",
            "\x1b",
            [],
            {},
        ]
    ),
    st.text(max_size=3),
    st.integers(-3, 3),
    st.integers(0, 1000).map(nested),
    st.dictionaries(st.sampled_from(["dtype", "shape", "values", "key", "layout", "error", "outputs"]), st.integers()),
)


@st.composite
def mutated(draw, document):
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from([place for place in places_in(document) if place]))
        holder = document
        for key in way:
            holder = holder[key]
        change = draw(st.sampled_from(["replace", "remove", "add", "copy"]))
        if change == "remove":
            del holder[last]
        elif change == "replace":
            holder[last] = draw(STRANGE)
        elif isinstance(holder, list):
            holder.insert(last, draw(STRANGE) if change == "add" else holder[last])
        elif change == "add":
            holder[draw(st.text(max_size=4))] = draw(STRANGE)
        else:
            *others, source = draw(st.sampled_from([place for place in places_in(document) if place]))
            taken = document
            for key in (*others, source):
                taken = taken[key]
            holder[last] = copy.deepcopy(taken)
    return document


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("with_id", [False, True], ids=["as it is", "with its id"])
def test_a_mutated_file_is_refused_in_one_line_or_is_a_case(name, with_id, tmp_path, monkeypatch):
    path = as_written(name, tmp_path)
    document = json.loads(path.read_text())
    if with_id:
        monkeypatch.setattr(stored.Document, "check_id", lambda *_: None)

    @settings(max_examples=40, database=None)
    @given(mutated(document))
    def try_one(changed):
        path.write_text(json.dumps(changed))
        try:
            case = read_case(path)
        except SpecRejection as rejection:
            assert rejection.reason is Reason.BAD_CASE_FILE
            assert str(rejection).isprintable()
        else:
            replay_case(ORACLE, case)

    try_one()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_other_bytes_are_refused_or_change_nothing(name, tmp_path):
    path = as_written(name, tmp_path)
    content, id_of = path.read_bytes(), read_case(path).id

    @settings(max_examples=40, database=None)
    @given(st.integers(0, len(content) - 1), st.binary(max_size=2), st.integers(0, 2))
    def try_one(place, put, num_taken):
        path.write_bytes(content[:place] + put + content[place + num_taken :])
        try:
            assert read_case(path).id == id_of
        except SpecRejection as rejection:
            assert rejection.reason is Reason.BAD_CASE_FILE

    try_one()
