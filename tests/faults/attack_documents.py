"""``python -m tests.faults.attack_documents`` mutates case files, files of known failures and recorded calls, and reads
them: each is read or refused with a reason, within a time and a length of words.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from specsim.conformance.backend import load
from specsim.conformance.cases import Case, read_case, replay_case, write_case
from specsim.conformance.known import BadKnownFailures, read_known
from specsim.conformance.outcomes import Observation, observe
from specsim.conformance.stored import OBSERVED, Provenance
from specsim.conformance.stored_laws import StoredLaw
from specsim.rejection import SpecRejection

MOST_SECONDS = 2.0
MOST_WORDS = 10_000
PROPERTY = "agreement.fill_bonus_tokens"
KNOWN = """[[failure]]
operation = "fill_bonus_tokens"
property = "agreement.fill_bonus_tokens"
reason = "one off"
versions = ">=0.5,<0.6"
device = "gpu"
link = "https://example.org/7"
expires = 2027-01-31
seldom = true
"""
VALUES = (
    *(None, True, False, 0, -1, 1, 7, 1 << 31, 1 << 63, 1 << 64, -(1 << 63), 1 << 200, 0.5, 1e308, -0.0),
    *(
        "",
        "x",
        "NaN",
        "Infinity",
        "-Infinity",
        "x" * 100_000,
        "\x1b[2J",
        "\u202e",
        "\x00",
        "../../etc/passwd",
        "/dev/zero",
    ),
    *([], {}, [[]], [None], {"x": 1}, [0] * 1000, "int32", "object", "float64", "bool", "bfloat16", "specsim.case/1"),
)
BYTES = (
    b"",
    b"\x00",
    b"\xff",
    b"\x1b",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\ud800",
    b"1e999",
    b"NaN",
    b"\xed\xa0\x80",
)


def documents(folder: Path) -> dict[str, Path]:
    """Write documents of every kind, and return where they are."""
    reference = load("specsim.reference")
    given = {"accept_tokens": np.arange(6, dtype=np.int32).reshape(2, 3), "num_accepted_tokens": np.ones(2, np.int32)}
    views = {**given, "accept_tokens": np.arange(24, dtype=np.int32).reshape(2, 12)[:, 1::4]}
    wide = {"accept_tokens": np.zeros((40_000, 2), np.int32), "num_accepted_tokens": np.ones(40_000, np.int32)}
    law = StoredLaw({"tokens": [1, 2], "rows": [{"x": 0.5}]}, (("0", "1/2"),), (1,), (2,))
    kept = {}
    for name, arguments, extra in (
        ("plain", given, {}),
        ("views", views, {}),
        ("beside", wide, {}),
        ("observed", given, {"kind": OBSERVED, "ties_are_free": True}),
        ("law", given, {"law": law}),
    ):
        expected = observe(reference, "fill_bonus_tokens", arguments)
        wrong = Observation({key: value + 1 for key, value in expected.outputs.items()})
        origin = Provenance("m", 3, {"numpy": "2"})
        case = Case("fill_bonus_tokens", PROPERTY, dict(arguments), expected, wrong, "wrong", origin, **extra)
        kept[name] = write_case(case, folder / name, "case")
    kept["known"] = folder / "known.toml"
    kept["known"].write_text(KNOWN)
    return kept


def mutated_bytes(content: bytes, random: Random) -> bytes:
    """Return bytes with a few of them changed, taken out, doubled or put in."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        place = random.randrange(len(changed) + 1)
        length = random.choice((0, 1, 1, 2, 8, 64, 1000))
        kind = random.randrange(4)
        if kind == 0:
            changed[place : place + length] = random.choice(BYTES)
        elif kind == 1:
            changed[place:place] = changed[place : place + length]
        elif kind == 2:
            changed[place : place + 1] = bytes([random.randrange(256)])
        else:
            del changed[random.choice((place, -place or len(changed))) : place + length]
    return bytes(changed)


def mutated_structure(document: Any, random: Random) -> Any:
    """Return a document of JSON in which one value or key, anywhere, is another."""
    document = json.loads(json.dumps(document))
    places: list[tuple[Any, Any]] = []
    level = [document]
    while level:
        one = level.pop()
        for key in list(one) if isinstance(one, dict) else range(min(len(one), 5)):
            places.append((one, key))
            if isinstance(one[key], dict | list):
                level.append(one[key])
    for _ in range(random.choice((1, 1, 2, 4))):
        holder, key = random.choice(places)
        kind = random.randrange(4)
        if isinstance(holder, dict) and key not in holder:
            continue
        if kind == 0 and isinstance(holder, dict):
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[str(random.choice(VALUES))[:400]] = holder[key]
        else:
            holder[key] = random.choice(VALUES)
    return document


def read_and_replay(path: Path) -> str:
    """Read a case, and replay it on the reference."""
    case = read_case(path)
    outcome, _ = replay_case(load("specsim.reference"), case)
    return f"read, {outcome.name}"


def read_known_file(path: Path) -> str:
    """Read a file of known failures."""
    read_known(path, [PROPERTY], None)
    return "read"


def try_one(path: Path, read: Callable[[Path], str]) -> tuple[str, str]:
    """Read a document; return what came of it, and what is wrong about that."""
    began = time.perf_counter()
    words = ""
    try:
        came = read(path)
    except (SpecRejection, BadKnownFailures) as refusal:
        came, words = "refused", str(refusal)
    except Exception as error:
        return "leaked", f"{type(error).__name__}: {error}"[:300]
    seconds = time.perf_counter() - began
    if seconds > MOST_SECONDS:
        return came, f"took {seconds:.1f} seconds"
    if len(words) > MOST_WORDS:
        return came, f"{len(words):,} characters of words"
    if not words.replace("\n", "").isprintable():
        return came, f"control characters in words: {words[:100]!r}"
    return came, ""


def attack(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Mutate and read so many documents; return what came of them, and what was mishandled."""
    came: Counter[str] = Counter()
    mishandled = []
    with tempfile.TemporaryDirectory() as name:
        kept = documents(Path(name))
        for number in range(count):
            random = Random(f"{seed} {number}")
            kind, path = random.choice(list(kept.items()))
            read = read_known_file if kind == "known" else read_and_replay
            other = path.with_suffix(".safetensors")
            target = other if kind == "beside" and random.random() < 0.6 else path
            content = target.read_bytes()
            if target.suffix == ".json" and random.random() < 0.6:
                changed = json.dumps(mutated_structure(json.loads(content), random)).encode()
            elif target is other:
                head = content[:400]
                changed = (
                    mutated_bytes(head, random) + content[400:]
                    if random.random() < 0.8
                    else content[: random.randrange(len(content))]
                )
            else:
                changed = mutated_bytes(content, random)
            try:
                target.write_bytes(changed)
                result, wrong = try_one(path, read)
            finally:
                target.write_bytes(content)
            came[result] += 1
            if wrong:
                mishandled.append(f"{kind}, number {number}: {wrong}")
    return came, mishandled


def main() -> int:
    """Attack, and print what came of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--documents", type=int, default=11_000)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    came, mishandled = attack(given.documents, given.seed)
    for line in mishandled[:50]:
        print(line)
    for result, number in came.most_common():
        print(f"{result}: {number:,}")
    print(f"mutated documents: {given.documents:,} tried, {len(mishandled):,} mishandled")
    return int(bool(mishandled))


if __name__ == "__main__":
    sys.exit(main())
