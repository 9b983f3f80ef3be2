"""One row of the rules: a configuration, and what becomes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specsim.assertion import require
from specsim.conformance.backend import Backend
from specsim.rejection import Reason, SpecRejection
from specsim.rules import Code, Decision, ExecutionPlan, Level, ServerConfig

INFO, WARNING = Level.INFO, Level.WARNING
CHOSEN = (Code.V2_CHOSEN, INFO)


@dataclass(frozen=True)
class Row:
    """A trigger and its effect.

    Parameters
    ----------
    section : str
        Of docs/semantics.md.
    trigger : str
        What the row is about.
    config : ServerConfig
        A configuration that pulls the trigger and no other.
    worker : str or None
        What runs it.
    says : tuple of (Code, Level)
        Every decision, in order.
    changes : mapping
        Settings that change, and what they become.
    refused : str or None
        The setting that a refusal names, if the configuration is refused.
    reason : Reason
        Of the refusal.
    """

    section: str
    trigger: str
    config: ServerConfig
    worker: str | None
    says: tuple[tuple[Code, Level], ...]
    changes: Mapping[str, Any]
    refused: str | None
    reason: Reason


def row(
    section: str,
    trigger: str,
    config: ServerConfig,
    worker: str | None = "v2",
    *says: tuple[Code, Level],
    refused: str | None = None,
    reason: Reason = Reason.BAD_CONFIGURATION,
    **changes: Any,
) -> Row:
    """Return a row: where nothing is said V2 is chosen, and V1 switches overlap off besides what else changes."""
    if worker == "v1" and not config.disable_overlap:
        changes["disable_overlap"] = True
    return Row(section, trigger, config, worker, says or (CHOSEN,), changes, refused, reason)


def settled(algorithm: Any = "EAGLE", **values: Any) -> ServerConfig:
    """Return a configuration that leaves nothing open: a chain of three that V2 runs without any other decision."""
    chain = {"topk": 1, "num_steps": 3, "num_draft_tokens": 4}
    closed = {"max_running_requests": 16, "draft_moe_runner_backend": "auto"}
    return ServerConfig(algorithm, **{**chain, **closed, **values})


def tree(algorithm: Any = "EAGLE", **values: Any) -> ServerConfig:
    """Return such a configuration with a tree of two beams."""
    return settled(algorithm, **{"topk": 2, "num_draft_tokens": 6, **values})


def require_row(backend: Backend, row: Row) -> None:
    """Raise AssertionError unless the configuration of a row becomes what the row says."""
    what = f"{row.section}, {row.trigger}"
    try:
        plan: ExecutionPlan = backend.host("resolve")(row.config)
    except SpecRejection as rejection:
        got, refusal = (rejection.reason, rejection.what), (row.reason, row.refused)
        require(row.refused is not None, f"{what}: plan", rejection, "one")
        require(got == refusal, f"{what}: refusal", got, refusal)
        return
    require(row.refused is None, f"{what}: worker", plan.worker, f"a refusal of {row.refused}")
    require(plan.worker == row.worker, f"{what}: worker", plan.worker, row.worker)
    expected = replace(row.config, **row.changes)
    for name, wanted in vars(expected).items():
        value = vars(plan.config)[name]
        require(value == wanted, f"{what}: {name}", value, wanted)
    says = tuple(map(_said, plan.decisions))
    require(says == row.says, f"{what}: decisions", says, row.says)


def _said(decision: Decision) -> tuple[Code, Level]:
    return decision.code, decision.level
