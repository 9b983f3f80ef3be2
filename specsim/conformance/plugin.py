"""Options of the pytest plugin: which implementation the conformance suite tests, and how hard.

The module imports nothing heavy and nothing of ``specsim.properties``, because pytest loads it in every run of every
project beside which specsim is installed, with Hypothesis or without.
"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``pytest --pyargs specsim.properties.conformance``."""
    group = parser.getgroup("specsim", "conformance of speculative-decoding operations")
    group.addoption(
        "--specsim-impl",
        default="specsim.reference",
        metavar="PACKAGE.MODULE",
        help="implementation that specsim.properties.conformance tests",
    )
    group.addoption("--specsim-seed", type=int, default=0, metavar="SEED", help="seed of every property")
    group.addoption(
        "--specsim-examples", type=int, default=50, metavar="COUNT", help="examples of each agreement property"
    )
    group.addoption(
        "--specsim-cases", default="specsim-cases", metavar="FOLDER", help="where the cases of failures are written"
    )
    group.addoption(
        "--specsim-models",
        action="store_true",
        help="also test the operations of the toy models, as check --models does",
    )
