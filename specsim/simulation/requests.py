"""A request on its way through an engine: what was asked for, what it has become, and what it owns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from specsim.assertion import require_present
from specsim.host.choice import StartGrammar, TokenChoice
from specsim.host.grammar import AdvanceGrammar, Grammar, advance_grammar
from specsim.host.logit_rules import LogitRules
from specsim.host.metrics import RequestCounters
from specsim.host.processors import LogitProcessor
from specsim.host.sampling import SamplingParameters
from specsim.host.stopping import AppendedRun, Finish, FinishReason, StopRules, TokenText, append_run
from specsim.host.truncation import end_of_grammar
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.handing_over import Load, SlotLoad
from specsim.simulation.logprobs import HiddenState, ReportedToken
from specsim.simulation.memory import Holding, SlotRange

TOKEN_TEXT: TokenText = chr
"""Text of a token of the simulated models: their tokens are bytes or small numbers, one character each."""


@dataclass(frozen=True)
class PromptChunk:
    """Positions ``start`` to ``end-1`` of a prompt."""

    prompt: Sequence[int]
    start: int
    end: int

    @classmethod
    def whole(cls, prompt: Sequence[int]) -> "PromptChunk":
        """Return a prompt in one chunk."""
        return cls(prompt, 0, len(prompt))

    @property
    def tokens(self) -> Sequence[int]:
        """Its tokens."""
        return self.prompt[self.start : self.end]

    @property
    def next_token(self) -> int | None:
        """The prompt's token after it; None after the last chunk."""
        return self.prompt[self.end] if self.end < len(self.prompt) else None


@dataclass
class Request:
    """One prompt on its way through the engine.

    ``holding`` is what it has in memory. Once its prefill is resolved, its text has one token more than positions are
    committed. ``finish`` says where and why it ended. ``grammar`` starts the matcher that the output advances.
    ``is_aborted`` asks it to end. ``num_caught_up`` says how many positions are final in the KV of the draft, where
    a verify of V1 ended it: the draft catches up on those that go on alone. With ``top_logprobs`` it gets the
    log-probability of every output token, in ``logprobs``, and of so many alternatives; ``token_ids_logprob`` and
    ``has_original_logprobs`` are as in ``TokenChoice``. With ``returns_hidden_states`` it is handed the hidden state
    after every output token, in ``hidden_states``. ``loaded`` is what another engine has computed of its text, until it
    gets a row.
    """

    request_id: int
    prompt: Sequence[int]
    max_new_tokens: int
    eos_token: int | None = None
    output: list[int] = field(default_factory=list)
    holding: Holding = field(default_factory=Holding)
    counters: RequestCounters = field(default_factory=RequestCounters)
    finish: Finish | None = None
    stop_tokens: Sequence[int] = ()
    stop_strings: Sequence[str] = ()
    min_new_tokens: int = 0
    context_limit: int | None = None
    sampling: SamplingParameters | None = None
    processor: LogitProcessor | None = None
    grammar: StartGrammar | None = None
    matcher: Grammar | None = None
    is_aborted: bool = False
    num_caught_up: int | None = None
    top_logprobs: int | None = None
    token_ids_logprob: tuple[int, ...] = ()
    has_original_logprobs: bool = False
    returns_hidden_states: bool = False
    logit_rules: LogitRules | None = None
    logprobs: list[ReportedToken] = field(default_factory=list)
    hidden_states: list[HiddenState] = field(default_factory=list)
    loaded: Load | None = None

    @property
    def row(self) -> int:
        """Its row of the request-to-token map; 0 while it waits."""
        return self.holding.books.row

    @property
    def slots(self) -> list[int]:
        """The slots of its allocated positions."""
        return self.holding.slots

    @property
    def num_committed(self) -> int:
        """Positions whose KV is final."""
        return self.holding.books.num_committed

    @property
    def num_retractions(self) -> int:
        """How often it lost its slots: what was launched before the last time no longer concerns it."""
        return self.holding.books.num_retractions

    @property
    def fill(self) -> tuple[int, ...]:
        """What a prefill runs over: the prompt, and the output of a request that was retracted."""
        return (*self.prompt, *self.output)

    @property
    def num_fill(self) -> int:
        """How many tokens that is."""
        return len(self.prompt) + len(self.output)

    @property
    def choice(self) -> TokenChoice:
        """How its tokens are chosen; the matcher is the one that its output advances."""
        choice = TokenChoice(
            self.sampling,
            self.processor,
            self.matcher,
            self.top_logprobs,
            self.token_ids_logprob,
            self.has_original_logprobs,
            self.returns_hidden_states,
        )
        if self.logit_rules is None:
            return choice
        stops = self.rules.eos_tokens | self.rules.stop_tokens
        return replace(choice, rules=self.logit_rules, stops=stops, output=tuple(self.output))

    def choice_alone(self, matcher: Grammar | None = None) -> TokenChoice:
        """Return how plain decoding chooses the tokens of the same request: greedily, and from nothing."""
        return replace(self.fresh().choice, sampling=None, matcher=matcher)

    @property
    def is_greedy(self) -> bool:
        """Whether nothing about it is left to chance."""
        return self.sampling is None or self.sampling.is_greedy

    @property
    def rules(self) -> StopRules:
        """When the request ends."""
        return StopRules(
            max_new_tokens=self.max_new_tokens,
            eos_tokens=frozenset() if self.eos_token is None else frozenset({self.eos_token}),
            stop_tokens=frozenset(self.stop_tokens),
            stop_strings=tuple(self.stop_strings),
            min_new_tokens=self.min_new_tokens,
            context_limit=self.context_limit,
            is_aborted=self.is_aborted,
        )

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended."""
        return None if self.finish is None else self.finish.reason

    def fresh(self) -> "Request":
        """Return the same request before its first step."""
        again = replace(self, output=[], logprobs=[], holding=Holding(), counters=RequestCounters(), finish=None)
        again.hidden_states = []
        again.matcher, again.is_aborted, again.num_caught_up, again.loaded = None, False, None, None
        return again

    def elsewhere(self, advance_grammar: AdvanceGrammar = advance_grammar) -> "Request":
        """Return the same request for another engine: it has its text and reports, and nothing in memory.

        Raises
        ------
        SpecRejection
            WRONG_PHASE: it has ended.
        """
        if self.finish is not None:
            because = "another engine decodes more of it"
            raise SpecRejection(Reason.WRONG_PHASE, "request", "one that has ended", "one that goes on", because)
        again = replace(self, output=[*self.output], holding=Holding(), num_caught_up=None, loaded=None)
        again.logprobs, again.hidden_states = [*self.logprobs], [*self.hidden_states]
        if self.grammar is not None:
            again.matcher = self.grammar()
            advance_grammar(again.matcher, self.output)
        return again

    def append(
        self,
        tokens: Sequence[int],
        append_run: Callable[..., AppendedRun] = append_run,
        advance_grammar: AdvanceGrammar = advance_grammar,
    ) -> None:
        """Append output tokens up to the first that ends the request; nothing after it has ended.

        A request that was aborted keeps all of them and ends after them.

        Notes
        -----
        Source: semantics I.3, I.9.
        """
        if self.finish is not None or not tokens:
            return
        if self.is_aborted:
            self.output = [*self.output, *tokens]
            self.abort()
            return
        run = append_run(self.rules, self.output, tokens, len(tokens), self.num_committed, len(self.prompt), TOKEN_TEXT)
        finish = run.finish
        if self.matcher is not None:
            finish = end_of_grammar(self.matcher, self.output, tokens, finish, TOKEN_TEXT, advance_grammar)
        self.output = list(run.appended if finish is None else run.appended[: finish.num_tokens])
        self.finish = finish

    def tell(self, reported: Sequence[ReportedToken]) -> None:
        """Keep what is reported of the tokens that were output last; of those after the end nothing is.

        Notes
        -----
        Source: semantics C.8.
        """
        if self.top_logprobs is not None:
            self.logprobs = [*self.logprobs, *reported][: len(self.output)]
        if self.returns_hidden_states:
            states = [require_present(f"hidden state of token {one.token}", one.hidden_state) for one in reported]
            self.hidden_states = [*self.hidden_states, *states][: len(self.output)]

    def abort(self) -> None:
        """End where it stands."""
        self.finish = Finish(FinishReason.ABORT, len(self.output), "".join(map(TOKEN_TEXT, self.output)))


@dataclass(frozen=True)
class PrefillBatch:
    """What one turn runs of prompts: requests, their chunks, and the slots that these got.

    ``joining`` are those that have just been admitted, ``loads`` what of their texts is loaded before the chunks run.
    """

    requests: tuple[Request, ...]
    chunks: tuple[PromptChunk, ...]
    ranges: tuple[SlotRange, ...]
    joining: tuple[Request, ...]
    loads: tuple[SlotLoad, ...] = ()
