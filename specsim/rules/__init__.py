"""Rules of a configuration: which worker runs it, with which values, and why."""

from specsim.rules.config import ServerConfig
from specsim.rules.order import resolve
from specsim.rules.plan import REASONS_FOR_V1, REASONS_FOR_V2, Code, Decision, ExecutionPlan, Level

__all__ = [
    "REASONS_FOR_V1",
    "REASONS_FOR_V2",
    "Code",
    "Decision",
    "ExecutionPlan",
    "Level",
    "ServerConfig",
    "resolve",
]
