"""Hypothesis strategies, laws, mutants and the conformance suite. Import it as ``specsim.properties``."""

from specsim.installation import explain_missing, find_missing

if __name__ != "specsim.properties":
    raise ImportError(f"import this package as specsim.properties, not as {__name__}")
if find_missing("properties"):
    raise ImportError(explain_missing("properties", __name__))
