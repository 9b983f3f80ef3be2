"""Fuzz my_kernels: python fuzz_my_kernels.py -runs=10000 -len_control=0; TARGET names an operation or a law."""

import os
import sys

import atheris

with atheris.instrument_imports(include=["my_kernels", "specsim.reference"]):
    import my_kernels  # noqa: F401

    from specsim.properties import harness

fuzz = harness.target(os.environ.get("TARGET", "fill_bonus_tokens"), "my_kernels", cases="specsim-cases")
atheris.Setup(sys.argv, lambda data: -1 if fuzz(data) is None else 0)
atheris.Fuzz()
