"""The conformance suite: ``pytest --pyargs specsim.properties.conformance --specsim-impl package.module``."""
