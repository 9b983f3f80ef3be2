"""Acceptance rules: by which of the exact rules a worker accepts the drafts of sampled requests."""

from enum import StrEnum

from specsim.host.sampling import SamplingParameters
from specsim.rejection import Reason, SpecRejection, contradiction


class Acceptance(StrEnum):
    """The rules that leave the target's law as it is; all of them are greedy where nothing is sampled."""

    TOKEN = "token"
    """Each draft is judged by a coin: in trees against the target's running mass, in chains against its own share."""

    BLOCK = "block"
    """The drafts of a chain are judged together."""

    TARGET_DRAW = "target-draw"
    """A draft is accepted if it is the target's own draw, on the noise of the request's seed and the position."""


def acceptance_of(name: str, branches: int) -> Acceptance:
    """Return the rule of a name for drafts of a branching factor.

    Raises
    ------
    SpecRejection
        UNKNOWN_NAME: there is no such rule; BAD_CONFIGURATION: trees are to be judged as blocks.

    Notes
    -----
    Source: semantics B.8, B.9b, Q.2.
    """
    known = [rule.value for rule in Acceptance]
    if name not in known:
        raise SpecRejection(Reason.UNKNOWN_NAME, "acceptance", repr(name), f"one of {', '.join(known)}", "it is a rule")
    rule = Acceptance(name)
    if rule is Acceptance.BLOCK and branches > 1:
        expected = f"{Acceptance.TOKEN} or {Acceptance.TARGET_DRAW}"
        raise contradiction("acceptance", rule.value, expected, "drafts are trees, and a block is a chain")
    return rule


def check_thresholds(rule: Acceptance, sampling: SamplingParameters | None) -> None:
    """Raise unless a rule can judge the drafts of a request: only coins of tokens know thresholds.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a threshold below 1.
    """
    if rule is Acceptance.TOKEN or sampling is None or sampling.is_greedy:
        return
    for name in ("threshold_single", "threshold_acc"):
        got = getattr(sampling, name)
        if got < 1:
            raise contradiction(f"sampling.{name}", got, "1", f"acceptance {rule.value} has no thresholds")
