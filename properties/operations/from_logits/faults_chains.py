"""Faults in chains from raw logits."""

from dataclasses import replace
from functools import partial

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Named, given, mutants_of, with_arguments
from specsim.properties.operations.from_logits.faults_rounding import in_logarithms
from specsim.reference import walks
from specsim.reference.walks import LogitChain, logit_chain, rest_of, walk_chain_from_logits, walk_chain_greedily

_walk = partial(edited, within=walk_chain_from_logits)
_rest = partial(_walk, "rest_of(log_p, log_q)")
_draft_law = partial(edited, within=LogitChain.draft_law)
_target_law = partial(edited, within=LogitChain.target_law)
_chain = partial(edited, within=logit_chain)

UNFILTERED = "log_probabilities(chain.target_logits[place], chain.temperature)"
LAST_ROW_TWICE = (
    "zip([*chain.drafts, -1], chain.target_logits, strict=True)",
    "zip([*chain.drafts, -1], [*chain.target_logits[:-1], *chain.target_logits[-2:][:1]], strict=True)",
)
"""What gives a greedy request's last token the row of the last draft."""

_IS_POSSIBLE = "log_q[token] > -np.inf"
_BOUND = "log_of(chain.coins.each[place]) + log_q[token]"
_LAW = "log_probabilities(self.target_logits[place], self.temperature, *self.filters)"
_FILTERS_FIRST = """
row = self.target_logits[place]
is_kept = log_probabilities(row, 1.0, *self.filters) > -np.inf
return log_probabilities(np.where(is_kept, row, -np.inf), self.temperature)
"""
_FILTERS = "temperature, top_k, top_p, min_p = filters_of(arguments, request)"
_BEST = "best = int(np.argmax(row.astype(np.float32)))"
_REST, _P_WITHOUT_REST = "np.maximum(np.exp(log_p) - np.exp(log_q), 0.0)", "rest if rest.any() else np.exp(log_p)"

DRAFT_AT_ONE = _draft_law("self.draft_temperature", "1.0")
DRAFT_AT_THE_TARGETS = _draft_law("self.draft_temperature", "self.temperature")
COMMON_TOKENS = _draft_law("self.draft_logits[place]", "self.draft_logits[place][: len(log_q)]")
FILTERS_FIRST = _target_law(f"return {_LAW}", _FILTERS_FIRST)
CLAMPED = _target_law("self.temperature", "max(self.temperature, 0.1)")
GREEDY_AT_ONE = _chain(_FILTERS, f"{_FILTERS}\ntemperature = temperature or 1.0")
ROWS_OF_DRAFTS = _chain(
    'arguments["target_logits"][first + request : last + request + 1]', 'arguments["target_logits"][first : last + 1]'
)
"""Faults in the laws of rows, and in which rows they are, by samplers of chains from logits."""


def _numbers_everywhere(arguments: Named) -> None:
    for name in ("target_logits", "draft_logits"):
        if arguments[name] is not None and np.isnan(arguments[name].astype(np.float32)).any():
            raise ValueError("a logit is NaN")


NUMBERS_EVERYWHERE = given(_numbers_everywhere)
NEXT_ROWS = _chain("draft_logits[first:last]", "np.roll(draft_logits, -1, axis=0)[first:last]")

MUTANTS = mutants_of(
    "chain_speculative_sampling_from_logits",
    ("OWN-3200", "Draft logits are not divided by their temperature.", DRAFT_AT_ONE),
    ("OWN-3201", "Draft logits are divided by the target's.", DRAFT_AT_THE_TARGETS),
    (
        "OWN-3202",
        "A sentinel subtracts the draft's row.",
        _walk(
            "takewhile(lambda token: token >= 0, chain.drafts)",
            "chain.drafts",
            _IS_POSSIBLE,
            f"token >= 0 and {_IS_POSSIBLE}",
        ),
    ),
    (
        "OWN-3203",
        "The rest of a certain draft is that of its row.",
        _rest(
            "rest_of(log_p, log_q if chain.draft_is_drawn else replace(chain, draft_temperature=1.0).draft_law(place))",
            replace=replace,
        ),
    ),
    (
        "OWN-3204",
        "The rest of a certain draft has it in.",
        _rest("rest_of(log_p, log_q if chain.draft_is_drawn else np.full_like(log_q, -np.inf))"),
    ),
    ("OWN-3205", "Draft probabilities add up over common tokens.", COMMON_TOKENS),
    ("OWN-3206", "Filters come before the temperature.", FILTERS_FIRST),
    ("OWN-3207", "Only the last row is filtered.", _walk("chain.target_law(place)", UNFILTERED)),
    ("OWN-3208", "A rejection draws from the unfiltered row.", _rest(f"rest_of({UNFILTERED}, log_q)")),
    ("OWN-3209", "Weights of the target are not normalised in a rest.", _rest("rest_of(log_p - log_p.max(), log_q)")),
    ("OWN-3210", "Greedy requests are sampled at temperature 1.", GREEDY_AT_ONE),
    (
        "OWN-3211",
        "A greedy draft with an equal logit is accepted.",
        edited(
            _BEST,
            f"{_BEST}\nbest = token if token >= 0 and row[token] == row[best] else best",
            within=walk_chain_greedily,
        ),
    ),
    (
        "OWN-3212",
        "A greedy rejection draws by chance.",
        edited(
            "tokens.append(best)",
            """
            is_kept = token == best or len(tokens) == len(chain.drafts)
            weights = np.exp(row.astype(np.float64) - float(row.max()))
            tokens.append(best if is_kept else draw(weights, chain.coins.final))
            """,
            within=walk_chain_greedily,
        ),
    ),
    ("OWN-3213", "Low temperatures are raised.", CLAMPED),
    ("OWN-3214", "Target rows are counted like drafts.", ROWS_OF_DRAFTS),
    (
        "OWN-3215",
        "The last token comes from the row of the last draft.",
        edited(
            "chain.target_law(len(tokens))", "chain.target_law(max(len(tokens) - 1, 0))", *LAST_ROW_TWICE, within=walks
        ),
    ),
    (
        "OWN-3216",
        "Where nothing is left, the last token is drawn.",
        edited(_P_WITHOUT_REST, "rest if rest.any() else certain(-1, len(rest))", within=rest_of),
    ),
    (
        "OWN-3217",
        "A draft below a millionth counts as impossible.",
        _walk(_IS_POSSIBLE, f"{_IS_POSSIBLE} and log_p[token] > np.log(1e-6)"),
    ),
    (
        "OWN-3218",
        "Tokens beyond the draft's row are never drawn.",
        _draft_law("log_q[: len(law)] = law", "log_q[: len(law)], log_q[len(law) :] = law, np.inf"),
    ),
    ("OWN-3219", "Rows that no walk reads must be numbers as well.", NUMBERS_EVERYWHERE),
    ("OWN-3220", "A draft is judged by the row of the next one.", NEXT_ROWS),
    ("OWN-3221", "The draft's rows do not arrive.", with_arguments(draft_logits=None)),
    (
        "OWN-3222",
        "A draft that its row cannot choose is never drawn.",
        _rest("rest_of(log_p, np.where(np.arange(len(log_q)) == token, 0.0, log_q))"),
    ),
    (
        "OWN-5633",
        "What is left comes from logarithms, of zeros too.",
        edited(_REST, "left(np.exp(log_p), np.exp(log_q))", within=rest_of, left=in_logarithms),
    ),
    (
        "OWN-3223",
        "A draft that rounding rejects leaves the first token.",
        _walk(
            f"log_p[token] > {_BOUND}",
            "np.float32(log_p[token]) > np.float32(log_of(chain.coins.each[place])) + np.float32(log_q[token])",
            "rest_of(log_p, log_q)",
            f"rest_of(log_p, log_q) if {_REST}.any() or not {_IS_POSSIBLE} else certain(0, len(log_p))",
        ),
    ),
)
