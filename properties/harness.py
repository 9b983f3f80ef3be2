"""The suite in process, for fuzzers and for tools that collect Hypothesis tests.

``target`` makes an operation or a law a function of bytes, ``tests`` makes every one a ``@given`` test of its own,
``compare`` is the comparison that they make, ``WorkerMachine`` a state machine around anybody's worker, and
``WrittenSlots`` judges what an engine exports of its slots. Nothing is isolated here: an implementation that crashes
takes the process with it, as a fuzzer expects.
"""

from specsim.properties.suite.harness.comparing import compare
from specsim.properties.suite.harness.every import tests
from specsim.properties.suite.harness.exporting import WrittenSlots
from specsim.properties.suite.harness.machine import WorkerMachine
from specsim.properties.suite.harness.targets import target

__all__ = ["WorkerMachine", "WrittenSlots", "compare", "target", "tests"]
