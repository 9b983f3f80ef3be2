"""The options of the pytest plugin, for ``-p specsim.properties.conformance.plugin``."""

from specsim.conformance.plugin import pytest_addoption

__all__ = ["pytest_addoption"]
