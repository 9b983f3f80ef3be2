"""The reference as a command over a pipe: every operation, whatever its arguments are."""

import json
import sys

from specsim.conformance.backend import load
from specsim.conformance.carrying import labelled
from specsim.conformance.piping.frames import LENGTHS, framed, unpack
from specsim.operations import RECORDS
from specsim.rejection import SpecRejection

HELLO = {"hello": "specsim.pipe/1", "operations": list(RECORDS), "declares": {"REJECTS": True}}
REFERENCE = load("specsim.reference")


def arguments_of(operation, scalars, arrays):
    given = dict(scalars)
    for spec in RECORDS[operation].contract.arrays:
        if spec.each is None:
            given[spec.name] = arrays.get(spec.name)
        else:
            count = sum(name.startswith(f"{spec.name}.") for name in arrays)
            given[spec.name] = [arrays[f"{spec.name}.{place}"] for place in range(count)]
    return given


def answer(asked, arrays):
    operation = asked["operation"]
    try:
        outputs = REFERENCE.run(operation, arguments_of(operation, asked["scalars"], arrays)).outputs
    except SpecRejection as rejection:
        return framed({"id": asked["id"], "rejection": rejection.reason.name, "message": str(rejection)}, {})
    return framed({"id": asked["id"]}, dict(each for name, value in outputs.items() for each in labelled(name, value)))


def main():
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while len(begun := stdin.read(LENGTHS.size)) == LENGTHS.size:
        header, body = LENGTHS.unpack(begun)
        asked, content = json.loads(stdin.read(header)), stdin.read(body)
        arrays = unpack(content) if content else {}
        stdout.write(framed({"id": asked["id"], **HELLO}, {}) if "hello" in asked else answer(asked, arrays))
        stdout.flush()


if __name__ == "__main__":
    main()
