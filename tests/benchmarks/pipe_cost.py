"""Print what calls over a pipe cost, ``python tests/benchmarks/pipe_cost.py ./engine``, and compare it with nothing.

Each operation of the command is called as the suite calls it, on calls that its strategy draws, beside the reference.
"""

import sys
import time
from statistics import median, quantiles

from specsim.conformance.backend import load
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.hunt.cases import draw_cases

NUM_CASES, NUM_CALLS = 20, 50


def microseconds(backend, operation, cases):
    """Return the median of the calls and what 95 of 100 stay below."""
    spent = []
    for _ in range(NUM_CALLS):
        for case in cases:
            began = time.perf_counter()
            backend.run(operation, case)
            spent.append(1e6 * (time.perf_counter() - began))
    return median(spent), quantiles(spent, n=20)[-1]


def main(command):
    began = time.perf_counter()
    backend, reference = load(f"command:{command}"), load("specsim.reference")
    print(f"{command} is ready after {1e3 * (time.perf_counter() - began):.1f} ms; µs a call: median, 95 of 100")
    for operation in backend.functions:
        cases = draw_cases(property_named(f"agreement.{operation}"), 0, NUM_CASES)
        costs = [*microseconds(backend, operation, cases), *microseconds(reference, operation, cases)]
        print("{:32} over a pipe {:6.0f} {:6.0f}   the reference {:6.0f} {:6.0f}".format(operation, *costs))


if __name__ == "__main__":
    main(*sys.argv[1:])
