"""Hypothesis strategies, laws, mutants and the conformance suite. Import it as ``specsim.properties``."""

if __name__ != "specsim.properties":
    raise ImportError(f"import this package as specsim.properties, not as {__name__}")
