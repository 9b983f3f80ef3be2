"""What commands found as a page for a browser: one file, which needs no network and no script.

``python -m specsim.reports FILE.json > FILE.html`` makes the page of a document that ``--json`` has printed.
"""

from specsim.installation import explain_missing, find_missing

if find_missing("report"):
    raise ImportError(explain_missing("report", __name__))

from specsim.reports.page import COMMANDS, docs_beside, render

__all__ = ["COMMANDS", "docs_beside", "render"]
