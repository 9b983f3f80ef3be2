"""What the rules decide: a worker, adjusted settings, and a reason for everything that was decided."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from specsim.algorithms import WITH_CHECKED_SIZES, WorkerRequest
from specsim.config import SpecConfig
from specsim.rules.config import ServerConfig


class Level(StrEnum):
    """Whether a decision is one that the user would want to hear of."""

    INFO = "info"
    WARNING = "warning"


class Code(StrEnum):
    """One member a kind of decision; its value is stable, its sentence says what it means."""

    sentence: str

    def __new__(cls, value: str, sentence: str) -> "Code":
        """Return a member that compares like its value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member

    NOT_SPECULATIVE = "not-speculative", "Nothing is drafted, so there is no worker."
    V2_CHOSEN = "v2-chosen", "V2 can run the configuration."
    OVERLAP_DISABLED = "overlap-disabled", "Overlap is disabled, so V1 runs it."
    PAGED_TREE = (
        "topk-needs-page-size-1",
        "Trees on larger pages run on V2 only if asked for: V1 without overlap.",
    )
    RECURRENT_TREE = (
        "topk-needs-no-recurrent-state",
        "Trees of a recurrent target run on V2 only if asked for: V1 without overlap.",
    )
    V2_NOT_ENABLED = "v2-not-enabled", "V2 is not enabled, so V1 runs it without overlap."
    ALGORITHM_WITHOUT_V2 = "algorithm-without-v2", "V2 does not have the algorithm, so V1 runs it without overlap."
    FORCED_V1 = "forced-v1", "V1 was asked for; it runs without overlap."
    FORCED_V2 = "forced-v2", "V2 was asked for."
    V2_STEP_BY_STEP = (
        "algorithm-on-v2",
        "V2 was asked for; it runs the algorithm step by step, because nothing overlaps it.",
    )
    V2_SYNCHRONOUS = "forced-v2-synchronous", "V2 was asked for and overlap is off, so V2 runs step by step."
    NAME_IN_CAPITALS = "name-in-capitals", "The algorithm's name was written in capitals."
    ALIAS_REPLACED = "alias-replaced", "NEXTN is another name of EAGLE."
    FROZEN_KV_CHOSEN = "frozen-kv-mtp-chosen", "The draft model reads the target's cache and has none of its own."
    DRAFT_REVISION = "draft-revision-default", "The draft model's revision was left open."
    DRAFT_MOE_RUNNER = "draft-moe-runner-default", "The draft's expert kernels were left open: they are the target's."
    DRAFT_WINDOW_IGNORED = "draft-window-ignored", "Only EAGLE3 and DFLASH have a draft window."
    RADIX_CACHE_OFF = "radix-cache-off", "Recurrent states without buffer cannot share prefixes on ROCm."
    MAX_RUNNING_REQUESTS = "max-running-requests-default", "The largest batch was left open."
    MIXED_CHUNK_OFF = "mixed-chunk-off", "Drafts and prefill chunks do not share a batch."
    BUILT_IN_DRAFT = "built-in-draft", "The target has draft layers of its own."
    BUILT_IN_DRAFT_UNUSED = "built-in-draft-unused", "The target has draft layers of its own; another draft was named."
    SIZES_CHOSEN = "sizes-chosen", "The sizes were left open and follow from algorithm and architecture."
    CHAIN_LENGTH = "chain-length", "A chain has one node a level and its root."
    DFLASH_SIZES = "dflash-sizes", "DFLASH drafts one block in one step."
    DFLASH_BLOCK = "dflash-block", "The number of draft tokens is the block size that was given."
    DFLASH_BLOCK_OF_DRAFT = "dflash-block-of-draft", "The number of draft tokens is the draft model's block size."
    DFLASH_BLOCK_DEFAULT = "dflash-block-default", "No block size is known."
    NGRAM_TOPK = "ngram-topk", "NGRAM's topk is the widest level of its search."
    NGRAM_DRAFT_TOKENS = "ngram-draft-tokens-default", "The number of draft tokens was left open."
    PLUGIN_ADJUSTED = "plugin-adjusted", "The plug-in's validator adjusted the configuration."
    ADAPTIVE_DISABLED = "adaptive-disabled", "The adaptive controller cannot run; the number of steps is fixed."


REASONS_FOR_V1 = frozenset(
    {
        Code.OVERLAP_DISABLED,
        Code.PAGED_TREE,
        Code.RECURRENT_TREE,
        Code.V2_NOT_ENABLED,
        Code.ALGORITHM_WITHOUT_V2,
        Code.FORCED_V1,
    }
)
REASONS_FOR_V2 = frozenset({Code.V2_CHOSEN, Code.FORCED_V2, Code.V2_STEP_BY_STEP, Code.V2_SYNCHRONOUS})


@dataclass(frozen=True)
class Decision:
    """One decision: a stable code, a sentence about this configuration, and the settings that it changed."""

    code: Code
    text: str
    level: Level = Level.INFO
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExecutionPlan:
    """What to run: the worker (``v1``, ``v2``, or None if nothing is drafted), the settings, and why."""

    worker: str | None
    config: ServerConfig
    decisions: tuple[Decision, ...]

    @property
    def is_overlapped(self) -> bool:
        """Whether scheduling runs ahead of the device."""
        return self.worker == "v2" and not self.config.disable_overlap

    @property
    def warnings(self) -> tuple[Decision, ...]:
        """The decisions that a user would want to hear of."""
        return tuple(decision for decision in self.decisions if decision.level is Level.WARNING)

    @property
    def fallback(self) -> Decision | None:
        """The decision for V1, if V1 was chosen."""
        return next((decision for decision in self.decisions if decision.code in REASONS_FOR_V1), None)

    @property
    def sizes(self) -> SpecConfig | None:
        """The sizes of the tree, for the algorithms whose sizes the rules check."""
        config = self.config
        if config.algorithm not in WITH_CHECKED_SIZES:
            return None
        if config.topk is None or config.num_steps is None or config.num_draft_tokens is None:
            return None
        return SpecConfig(config.topk, config.num_steps, config.num_draft_tokens)

    @property
    def worker_request(self) -> WorkerRequest:
        """What the algorithm's ``create_worker`` takes.

        Raises
        ------
        AssertionError
            Nothing is drafted.
        """
        if self.worker is None:
            raise AssertionError("worker = None, but should be v1 or v2, because something is drafted")
        return WorkerRequest(self.worker, self.is_overlapped, self.config.multi_layer, self.config)


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
