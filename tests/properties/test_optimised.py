"""Verdicts under ``python -O``, which removes every statement ``assert``."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KILLS = {
    "PV07": "engine.output_equals_autoregressive_decoding",
    "OWN-192": "worker_v1.slots_have_one_owner",
    "OWN-130": "rules.rows_have_their_effects",
}
SCRIPT = """
import sys
from specsim.conformance.backend import load
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.hunt.cases import find_breaking, iterate_cases

assert False, "an assertion is a statement here"
properties, mutants = ({one.name: one for one in all_properties()}, {one.id: one for one in all_mutants()})
reference = load("specsim.reference")
for pair in sys.argv[1:]:
    mutant, law = mutants[pair.split("=")[0]], properties[pair.split("=")[1]]
    faulty = mutant.inject(reference.functions[mutant.operation])
    backend = reference.with_function(mutant.operation, faulty, mutant.id)
    if find_breaking(law, backend, iterate_cases(law, 1, 8)) is None:
        print(f"{law.name} holds of {mutant.id}: {mutant.summary}")
"""


def test_a_planted_fault_is_found_without_assertions():
    command = [sys.executable, "-O", "-c", SCRIPT, *(f"{mutant}={law}" for mutant, law in KILLS.items())]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stdout + ran.stderr
