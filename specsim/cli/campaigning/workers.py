"""The workers of a node of a campaign: those of ``specsim check``."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from specsim.campaigns.workshop import Unstartable
from specsim.cli.device import need_suite
from specsim.cli.isolation import workers
from specsim.cli.output import Failed
from specsim.conformance.isolation.jobs import Limits
from specsim.conformance.isolation.supervisor import Supervisor
from specsim.environment import INTERPRETER


@contextmanager
def start(implementation: str, limits: Limits) -> Iterator[tuple[Supervisor, Any]]:
    """Start a worker that has loaded an implementation, as ``specsim check`` does.

    Raises
    ------
    Unstartable
        It does not import, or cannot run here.
    """
    try:
        need_suite()
        with workers(implementation, 1, limits) as (supervisor, prepared):
            if prepared.is_interpreted:
                os.environ.setdefault(INTERPRETER, "1")
            yield supervisor, prepared
    except Failed as failed:
        raise Unstartable(str(failed), failed.code) from failed
