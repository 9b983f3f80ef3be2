"""Documents in which a stranger wrote markup."""

from dataclasses import replace
from pathlib import Path

from specsim.conformance.cases import read_case, write_case
from specsim.conformance.stored import Provenance

MARK = "<b data-planted=1>&amp;\"'</b><script>planted()</script><!--"
"""What a stranger may write in any text of a document."""

BY_NAME = {
    *("properties", "operations", "statements", "beyond", "examples", "left_out", "unpromised", "tags", "not_seen"),
    *("ran", "did_not_run", "functions", "host_functions", "parts", "reused_after", "algorithms", "versions"),
    *("reach", "events", "sometimes", "meanings", "not_required", "schedules"),
}
"""Mappings of documents whose keys are names of others."""

OWN_NAMES = {"machines", "conditions"}
"""Names among them that are specsim's."""

KEPT = {"command", "case", "verdict", "fate", "schema"}
"""Texts that are specsim's own words, and the path of a case."""


def planted(value, *, are_names=False):
    """Return a document with markup after every text of a stranger."""
    if isinstance(value, dict):
        return {
            f"{key}{MARK}" if are_names and key not in OWN_NAMES else key: one
            if key in KEPT
            else planted(one, are_names=key in BY_NAME)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [planted(one) for one in value]
    return f"{value}{MARK}" if isinstance(value, str) and value else value


def with_planted_cases(document, folder):
    """Write the cases of a document with markup in them into a folder, and name them in the document."""
    for record in (*document["failures"], *document["failure_records"]):
        case = read_case(Path(record["case"]))
        whence = Provenance(MARK, case.provenance.seed, {"numpy": MARK})
        hostile = replace(case, message=MARK, property_name=f"{case.property_name}{MARK}", provenance=whence)
        record["case"] = str(write_case(hostile, folder))
    return document
