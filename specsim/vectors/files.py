"""The folder of vectors, ``specsim.vectors/1``, as ``docs/any-language.md`` describes it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from specsim.conformance.piping.frames import pack
from specsim.operations import RECORDS
from specsim.vectors.contracts import contract_of
from specsim.vectors.drawn import Vectors

FORMAT = "specsim.vectors/1"
MANIFEST = "manifest.json"


class NoFolderOfVectors(ValueError):
    """A folder holds something else."""


def clear(folder: Path) -> None:
    """Make a folder that vectors are written to, and remove older ones from it.

    Raises
    ------
    NoFolderOfVectors
        It holds anything else, and is left as it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    there = {path.name for path in folder.iterdir()}
    if there:
        own = _own_files(folder / MANIFEST)
        others = sorted(there - own)
        if others:
            raise NoFolderOfVectors(f"{folder} has {others[0]}, but should be empty or hold nothing but vectors")
        for name in there:
            (folder / name).unlink()
    _write(folder, {"format": FORMAT, "operations": {}})


def write_vectors(folder: Path, operation: str, found: Vectors) -> dict[str, Any]:
    """Write the two files of an operation, and return what the manifest says of it."""
    cases, arrays = [], {}
    for number, vector in enumerate(found.vectors):
        case = {"source": vector.source, "scalars": vector.scalars, "arguments": list(vector.arrays)}
        arrays.update({f"{number}/arguments/{label}": array for label, array in vector.arrays.items()})
        if vector.rejection:
            cases.append({**case, "rejection": vector.rejection})
            continue
        cases.append({**case, "expected": [one.label for one in vector.expected]})
        for one in vector.expected:
            arrays[f"{number}/expected/{one.label}"] = one.expected
            arrays[f"{number}/defined/{one.label}"] = np.broadcast_to(one.defined, one.expected.shape)
            if one.tolerance is not None:
                arrays[f"{number}/tolerance/{one.label}"] = np.broadcast_to(one.tolerance, one.expected.shape)
    files = {"cases": f"{operation}.json", "arrays": f"{operation}.safetensors"}
    lines = ",\n".join(json.dumps(case) for case in cases)
    (folder / files["cases"]).write_text(f'{{"operation": "{operation}", "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    (folder / files["arrays"]).write_bytes(pack(arrays))
    num_rejections = sum(bool(vector.rejection) for vector in found.vectors)
    return {
        **contract_of(RECORDS[operation]),
        "files": files,
        "num_cases": len(cases) - num_rejections,
        "num_rejections": num_rejections,
        "left_out": dict(sorted(found.left_out.items())),
    }


def write_manifest(folder: Path, entries: dict[str, dict[str, Any]], seed: int, versions: dict[str, str]) -> None:
    """Write what a folder holds; what was there before it is complete names no operation."""
    _write(folder, {"format": FORMAT, "seed": seed, "versions": versions, "operations": entries})


def _write(folder: Path, manifest: dict[str, Any]) -> None:
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _own_files(manifest: Path) -> set[str]:
    """Return the names that a folder of vectors may have, none where its manifest is none."""
    try:
        is_own = json.loads(manifest.read_text(encoding="utf-8"))["format"] == FORMAT
    except (OSError, ValueError, TypeError, LookupError):
        return set()
    return {MANIFEST, *_names(RECORDS)} if is_own else set()


def _names(operations: Iterable[str]) -> list[str]:
    return [f"{operation}.{kind}" for operation in operations for kind in ("json", "safetensors")]
