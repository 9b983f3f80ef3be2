"""The suite as functions of bytes and as Hypothesis tests; ``specsim.properties.harness`` has what users call."""
