"""The JSON document of a case file, as msgspec structures, with every check that needs none of its arrays."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from specsim.conformance.plain_files import bad_case_file, read_plain_file
from specsim.conformance.plain_text import LONGEST_TEXT
from specsim.conformance.stored_laws import StoredLaw
from specsim.operations import RECORDS
from specsim.rejection import Reason

SCHEMA = "specsim.case/1"
FAILURE, OBSERVED = "failure", "observed"
"""The kinds of cases: found by a property, or recorded from calls that somebody made."""

MOST_BYTES = 1 << 26
"""Of a document. What is written is far below it, because larger arrays stand beside."""

LONGEST_NAME, MOST_VERSIONS, MOST_IN_LIST, MOST_LEVELS = 300, 64, 4096, 64
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,250}")
Unset = msgspec.UnsetType


class StoredLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a view lies in a block of entries of its type: entries between entries, before the first, and in all."""

    strides: tuple[int, ...]
    offset: int
    size: int


class StoredArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One array: its entries nested row by row, or the key under which the safetensors file holds it."""

    dtype: str
    shape: tuple[int, ...]
    values: Any = msgspec.UNSET
    key: str | Unset = msgspec.UNSET
    layout: StoredLayout | Unset = msgspec.UNSET


Stored = StoredArray | list[StoredArray] | None


class StoredObservation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of three: arrays, the name of a rejection's reason, or the words of an error."""

    outputs: dict[str, Stored] | Unset = msgspec.UNSET
    rejection: str | Unset = msgspec.UNSET
    error: str | Unset = msgspec.UNSET


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The implementation that was checked, the seed of the run, and versions by distribution name."""

    implementation: str
    seed: int
    versions: dict[str, str] = {}


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A case file, field by field."""

    schema: Literal["specsim.case/1"]
    id: str
    operation: str
    property: str
    message: str
    parameters: dict[str, int]
    arrays: dict[str, Stored]
    expected: StoredObservation | None
    observed: StoredObservation
    provenance: Provenance
    law: StoredLaw | Unset = msgspec.UNSET
    arrays_file: str | Unset = msgspec.UNSET
    kind: Literal["failure", "observed"] = "failure"
    ties: Literal["contract", "any"] = "contract"

    def check_id(self, path: Path, content_hash: str) -> None:
        """Check that the id names the content."""
        if self.id != content_hash:
            raise bad_case_file(
                path, f"the id {self.id}", content_hash, "the id hashes operation, property, layouts and arguments"
            )

    def observations(self) -> Iterator[tuple[str, StoredObservation]]:
        """Yield what is expected, if it is known, and what was observed, with their places in the document."""
        if self.expected is not None:
            yield "expected", self.expected
        yield "observed", self.observed

    def groups(self) -> Iterator[tuple[str, Mapping[str, Stored]]]:
        """Yield each mapping of arrays with its place in the document."""
        yield "arrays", self.arrays
        yield from (
            (f"{name}.outputs", stored.outputs)
            for name, stored in self.observations()
            if not isinstance(stored.outputs, Unset)
        )

    def stored_arrays(self) -> Iterator[tuple[str, StoredArray]]:
        """Yield every array with its place in the document."""
        for where, values in self.groups():
            for name, value in values.items():
                entries = value if isinstance(value, list) else [] if value is None else [value]
                for index, entry in enumerate(entries):
                    yield f"{where}.{name}.{index}" if isinstance(value, list) else f"{where}.{name}", entry


def load_document(path: Path) -> Document:
    """Read the JSON document and check it against the table.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE.
    """
    content = parse_json(path, read_plain_file(path, MOST_BYTES, "larger arrays stand beside a document"))
    try:
        document = msgspec.convert(content, type=Document)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise bad_case_file(path, f"{error}", f"a {SCHEMA} document", "it does not parse") from error
    _check_names(path, document)
    _check_texts(path, document)
    if (document.expected is None) != (document.kind == OBSERVED):
        got = "nothing" if document.expected is None else "an observation"
        wanted = "null in a case of the kind observed alone"
        raise bad_case_file(path, f"expected, {got}", wanted, "of a recorded call no one knew what to expect")
    for name, observation in document.observations():
        _check_observation(path, name, observation)
    return document


def parse_json(path: Path, content: bytes) -> Any:
    """Parse a document in which every key stands once and every number is one.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE.
    """

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
            raise ValueError(f"the key {twice!r} twice")
        return members

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant}, which is no number of JSON")

    try:
        text = content.decode()
        parsed = json.loads(text, object_pairs_hook=object_of, parse_constant=refuse)
        if "\\ud" in text.lower():
            # NOTE: half of a character that takes two can be escaped, and is no text that anybody could print.
            json.dumps(parsed, ensure_ascii=False).encode()
        if _is_deep(parsed):
            raise bad_case_file(path, "nested too deep", f"at most {MOST_LEVELS} levels", "no case has more")
        return parsed
    except RecursionError as error:
        raise bad_case_file(path, "nested too deep", f"a {SCHEMA} document", "it does not parse") from error
    except ValueError as error:
        raise bad_case_file(path, f"{error}", f"a {SCHEMA} document", "it does not parse") from error


def _is_deep(parsed: Any) -> bool:
    """Return whether a document has more levels than anything in a case."""
    level = [parsed] if isinstance(parsed, list | dict) else []
    for _ in range(MOST_LEVELS):
        inside = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for members in inside for one in members if isinstance(one, list | dict)]
        if not level:
            return False
    return True


def _check_names(path: Path, document: Document) -> None:
    """Check that everything that the operation has is there, and nothing else."""
    if document.operation not in RECORDS:
        raise bad_case_file(path, document.operation, "an operation", "specsim has no operation of that name")
    contract = RECORDS[document.operation].contract
    arrays, scalars = [spec.name for spec in contract.arrays], [spec.name for spec in contract.scalars]
    produced = [*(spec.name for spec in contract.outputs), *contract.writes]
    names = {"arrays": arrays, "expected.outputs": produced, "observed.outputs": produced}
    for where, given, wanted in (
        ("parameters", document.parameters, scalars),
        *((where, values, names[where]) for where, values in document.groups()),
    ):
        for name in given:
            if name not in wanted:
                raise bad_case_file(path, f"{where}.{name}", f"one of {wanted}", f"{document.operation} has these")
        for name in wanted:
            if name not in given and where != "parameters":
                raise bad_case_file(path, f"without {where}.{name}", "there", f"{document.operation} has it")
    for where, values in document.groups():
        for name, value in values.items():
            if isinstance(value, list) and len(value) > MOST_IN_LIST:
                got = f"{where}.{name} with {len(value):,} arrays"
                raise bad_case_file(path, got, f"at most {MOST_IN_LIST:,}", "no operation takes more")


def _check_texts(path: Path, document: Document) -> None:
    """Check that texts are short, and that names are printable."""
    origin = document.provenance
    names = {"property": document.property, "provenance.implementation": origin.implementation}
    names |= {
        f"provenance.versions, {place}": f"{of} {version}"
        for place, (of, version) in enumerate(origin.versions.items())
    }
    texts = {"message": document.message}
    for name, observation in document.observations():
        if not isinstance(observation.error, Unset):
            texts[f"{name}.error"] = observation.error
    for most, group in ((LONGEST_NAME, names), (LONGEST_TEXT, texts)):
        for label, text in group.items():
            if len(text) > most:
                got = f"{label} of {len(text):,} characters"
                raise bad_case_file(path, got, f"at most {most:,}", "more of it says no more")
    for label, text in names.items():
        if not text or not text.isprintable():
            raise bad_case_file(path, f"{label} {text!r}", "a name in printable characters", "it is shown in lines")
    if len(origin.versions) > MOST_VERSIONS:
        got = f"provenance.versions with {len(origin.versions):,} entries"
        raise bad_case_file(path, got, f"at most {MOST_VERSIONS}", "no more distributions matter")
    if origin.seed < 0:
        raise bad_case_file(path, f"provenance.seed {origin.seed}", "at least 0", "seeds of runs are")


def _check_observation(path: Path, name: str, observation: StoredObservation) -> None:
    """Check that exactly one of the three is there."""
    given = [field for field in observation.__struct_fields__ if not isinstance(vars_of(observation)[field], Unset)]
    if len(given) != 1:
        got = f"{name} with {' and '.join(given) or 'nothing'}"
        raise bad_case_file(path, got, "one of outputs, rejection and error", "a call comes to one of them")
    if not isinstance(observation.rejection, Unset) and observation.rejection not in Reason.__members__:
        got = f"{name}.rejection {observation.rejection}"
        raise bad_case_file(path, got, "the name of a reason", "specsim.rejection lists them")
    if observation.error == "":
        raise bad_case_file(path, f"{name}.error ''", "the type and words of an error", "it says what was raised")


def vars_of(struct: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a structure by name."""
    return msgspec.structs.asdict(struct)
