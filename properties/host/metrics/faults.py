"""Faults in what is counted and in what is divided by what."""

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_by_number, with_arguments

_RATE = "num_accepted_drafts / num_proposed if num_proposed else 0.0"
_LENGTH = "count_tokens(num_accepted_drafts, num_verifies)"
_DRAFTS, _VERIFIES = "counters.num_accepted_drafts + num_accepted_drafts", "counters.num_verifies + num_requests"
_TOTAL_DRAFTS = "counters.total_accepted_drafts + counters.num_accepted_drafts"
_TOTAL_VERIFIES = "counters.total_verifies + counters.num_verifies"
_OF_A_ROW = "before if zombie else count_verify(before, drafts)"
_ROWS = "rows = zip(counters, num_accepted_drafts, is_zombie, strict=True)"

MUTANTS = (
    *mutants_by_number(
        "interval_rates",
        {
            ("M01", "The bonus token counts as accepted and the root as proposed."): edited(
                _RATE, "(num_accepted_drafts + num_verifies) / (num_verifies * (num_drafts_per_round + 1))"
            ),
            ("M03", "Tokens are divided by drafts, so that a rate exceeds 1."): edited(
                _RATE, "(num_accepted_drafts + num_verifies) / num_proposed"
            ),
            ("OWN-173", "An interval without a verify divides by zero."): edited(
                "num_verifies == 0", "False", _RATE, "num_accepted_drafts / num_proposed"
            ),
            ("OWN-1505", "Verifies that propose nothing divide by zero."): edited(
                _RATE, "num_accepted_drafts / num_proposed"
            ),
            ("OWN-174", "The length leaves the bonus token out."): edited(_LENGTH, "num_accepted_drafts"),
            ("OWN-381", "Drafts and verifies change places in the length."): edited(
                f"{_LENGTH} / num_verifies", f"{_LENGTH} / max(num_accepted_drafts, 1)"
            ),
        },
    ),
    *mutants_by_number(
        "drafts_per_round",
        {("M02", "A tree proposes as many drafts as it has levels."): with_arguments(num_draft_tokens=None)},
    ),
    *mutants_by_number(
        "update_spec_metrics",
        {
            ("OWN-175", "The interval's tokens lack the bonus: its verifies are not counted."): edited(
                _VERIFIES, "counters.num_verifies"
            ),
            ("OWN-176", "The bonus tokens are counted among the drafts."): edited(_DRAFTS, f"{_DRAFTS} + num_requests"),
            ("OWN-380", "Drafts and verifies change places."): edited(
                _DRAFTS,
                "counters.num_accepted_drafts + num_requests",
                _VERIFIES,
                "counters.num_verifies + num_accepted_drafts",
            ),
        },
    ),
    *mutants_by_number(
        "report_decode_stats",
        {
            ("M11", "A verify generates one token a request."): edited(
                "counters.num_accepted_tokens", "counters.num_verifies"
            ),
            ("OWN-177", "A report does not reset the counters."): edited(
                "return after, stats",
                """
                kept = {"num_accepted_drafts": counters.num_accepted_drafts, "num_verifies": counters.num_verifies}
                return replace(after, **kept), stats
                """,
            ),
            ("OWN-178", "A report forgets the intervals before it."): edited(
                _TOTAL_DRAFTS, "counters.num_accepted_drafts", _TOTAL_VERIFIES, "counters.num_verifies"
            ),
            ("OWN-382", "An interval reports the tokens of all intervals."): edited(
                "counters.num_accepted_tokens", "counters.realtime_tokens"
            ),
            ("OWN-383", "The totals add the verifies of an interval, and none of its drafts."): edited(
                _TOTAL_DRAFTS, "counters.total_accepted_drafts"
            ),
            ("OWN-179", "A report comes one batch late."): with_arguments(decode_log_interval=lambda own: own + 1),
        },
    ),
    *mutants_by_number(
        "count_verify",
        {
            ("OWN-180", "The histogram is by tokens, not drafts."): edited(
                "len(histogram) <= num_accepted_drafts",
                "len(histogram) <= num_accepted_drafts + 1",
                "histogram[num_accepted_drafts]",
                "histogram[num_accepted_drafts + 1]",
            ),
            ("OWN-181", "More than two drafts count as two."): with_arguments(
                num_accepted_drafts=lambda drafts: min(drafts, 2)
            ),
        },
    ),
    *mutants_by_number(
        "count_batch",
        {
            ("OWN-384", "A request counts its neighbour's drafts."): with_arguments(
                num_accepted_drafts=lambda drafts: [*drafts[1:], *drafts[:1]]
            ),
            ("OWN-385", "A zombie's verifies go on, not its drafts."): edited(
                _OF_A_ROW, f"replace(before, num_verifies=before.num_verifies + 1) if zombie else {_OF_A_ROW}"
            ),
            ("OWN-182", "A zombie's own counters go on."): edited(_OF_A_ROW, "count_verify(before, drafts)"),
            ("OWN-183", "The batch leaves zombies out."): edited(
                _ROWS,
                """
                rows = [*zip(counters, num_accepted_drafts, is_zombie, strict=True)]
                counters = [before for before, _, zombie in rows if not zombie]
                num_accepted_drafts = [drafts for _, drafts, zombie in rows if not zombie]
                """,
            ),
        },
    ),
    *mutants_by_number(
        "meta_info",
        {
            ("M07", "Proposed drafts are those of one verify more."): edited(
                "counters.num_verifies * num_drafts_per_round", "(counters.num_verifies + 1) * num_drafts_per_round"
            ),
            ("OWN-184", "The length ignores prefill and stop."): edited(
                "num_completion_tokens / counters.num_verifies",
                "1 + counters.num_accepted_drafts / counters.num_verifies",
            ),
            ("OWN-185", "No histogram where nothing was proposed."): edited(
                "counters.num_verifies == 0", "counters.num_verifies * num_drafts_per_round == 0"
            ),
        },
    ),
)
