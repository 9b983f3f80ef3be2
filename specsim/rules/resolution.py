"""The configuration while the rules work on it: what they change, they give a reason for."""

from dataclasses import dataclass, field, replace
from typing import Any

from specsim.rules.config import ServerConfig
from specsim.rules.plan import Code, Decision, ExecutionPlan, Level


@dataclass
class Resolution:
    """Settings up to now, the worker once it is chosen, and the decisions in order."""

    config: ServerConfig
    worker: str | None = None
    decisions: list[Decision] = field(default_factory=list)

    def decide(self, code: Code, about: str = "", level: Level = Level.INFO, **values: Any) -> None:
        """Set values and note why; ``changed`` of the decision names those that differ."""
        changed = tuple(name for name, value in values.items() if vars(self.config)[name] != value)
        self.config = replace(self.config, **values)
        self.decisions.append(Decision(code, f"{code.sentence} {about}".strip(), level, changed))

    def warn(self, code: Code, about: str = "", **values: Any) -> None:
        """Decide, and tell the user."""
        self.decide(code, about, Level.WARNING, **values)

    def plan(self) -> ExecutionPlan:
        """Return what was decided."""
        return ExecutionPlan(self.worker, self.config, tuple(self.decisions))
