"""Faults in what is counted and in what is divided by what."""

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_of_operations, with_arguments

_RATE = "num_accepted_drafts / num_proposed if num_proposed else 0.0"
_LENGTH = "count_tokens(num_accepted_drafts, num_verifies)"
_DRAFTS, _VERIFIES = "counters.num_accepted_drafts + num_accepted_drafts", "counters.num_verifies + num_requests"
_TOTAL_DRAFTS = "counters.total_accepted_drafts + counters.num_accepted_drafts"
_TOTAL_VERIFIES = "counters.total_verifies + counters.num_verifies"
_OF_A_ROW = "before if zombie else count_verify(before, drafts)"
_ROWS = "rows = zip(counters, num_accepted_drafts, is_zombie, strict=True)"

_RATES = "interval_rates"
_ROUND = "drafts_per_round"
_UPDATE = "update_spec_metrics"
_REPORT = "report_decode_stats"
_VERIFY = "count_verify"
_BATCH = "count_batch"
_META = "meta_info"

MUTANTS = mutants_of_operations(
    {
        ("M01", _RATES, "The bonus token counts as accepted and the root as proposed."): edited(
            _RATE, "(num_accepted_drafts + num_verifies) / (num_verifies * (num_drafts_per_round + 1))"
        ),
        ("M03", _RATES, "Tokens are divided by drafts, so that a rate exceeds 1."): edited(
            _RATE, "(num_accepted_drafts + num_verifies) / num_proposed"
        ),
        ("OWN-173", _RATES, "An interval without a verify divides by zero."): edited(
            "num_verifies == 0", "False", _RATE, "num_accepted_drafts / num_proposed"
        ),
        ("OWN-1505", _RATES, "Verifies that propose nothing divide by zero."): edited(
            _RATE, "num_accepted_drafts / num_proposed"
        ),
        ("OWN-174", _RATES, "The length leaves the bonus token out."): edited(_LENGTH, "num_accepted_drafts"),
        ("OWN-381", _RATES, "Drafts and verifies change places in the length."): edited(
            f"{_LENGTH} / num_verifies", f"{_LENGTH} / max(num_accepted_drafts, 1)"
        ),
        ("M02", _ROUND, "A tree proposes as many drafts as it has levels."): with_arguments(num_draft_tokens=None),
        ("OWN-175", _UPDATE, "The interval's tokens lack the bonus: its verifies are not counted."): edited(
            _VERIFIES, "counters.num_verifies"
        ),
        ("OWN-176", _UPDATE, "The bonus tokens are counted among the drafts."): edited(
            _DRAFTS, f"{_DRAFTS} + num_requests"
        ),
        ("OWN-380", _UPDATE, "Drafts and verifies change places."): edited(
            _DRAFTS,
            "counters.num_accepted_drafts + num_requests",
            _VERIFIES,
            "counters.num_verifies + num_accepted_drafts",
        ),
        ("M11", _REPORT, "A verify generates one token a request."): edited(
            "counters.num_accepted_tokens", "counters.num_verifies"
        ),
        ("OWN-177", _REPORT, "A report does not reset the counters."): edited(
            "return after, stats",
            """
                kept = {"num_accepted_drafts": counters.num_accepted_drafts, "num_verifies": counters.num_verifies}
                return replace(after, **kept), stats
                """,
        ),
        ("OWN-178", _REPORT, "A report forgets the intervals before it."): edited(
            _TOTAL_DRAFTS, "counters.num_accepted_drafts", _TOTAL_VERIFIES, "counters.num_verifies"
        ),
        ("OWN-382", _REPORT, "An interval reports the tokens of all intervals."): edited(
            "counters.num_accepted_tokens", "counters.realtime_tokens"
        ),
        ("OWN-383", _REPORT, "The totals add the verifies of an interval, and none of its drafts."): edited(
            _TOTAL_DRAFTS, "counters.total_accepted_drafts"
        ),
        ("OWN-179", _REPORT, "A report comes one batch late."): with_arguments(decode_log_interval=lambda own: own + 1),
        ("OWN-180", _VERIFY, "The histogram is by tokens, not drafts."): edited(
            "len(histogram) <= num_accepted_drafts",
            "len(histogram) <= num_accepted_drafts + 1",
            "histogram[num_accepted_drafts]",
            "histogram[num_accepted_drafts + 1]",
        ),
        ("OWN-181", _VERIFY, "More than two drafts count as two."): with_arguments(
            num_accepted_drafts=lambda drafts: min(drafts, 2)
        ),
        ("OWN-384", _BATCH, "A request counts its neighbour's drafts."): with_arguments(
            num_accepted_drafts=lambda drafts: [*drafts[1:], *drafts[:1]]
        ),
        ("OWN-385", _BATCH, "A zombie's verifies go on, not its drafts."): edited(
            _OF_A_ROW, f"replace(before, num_verifies=before.num_verifies + 1) if zombie else {_OF_A_ROW}"
        ),
        ("OWN-182", _BATCH, "A zombie's own counters go on."): edited(_OF_A_ROW, "count_verify(before, drafts)"),
        ("OWN-183", _BATCH, "The batch leaves zombies out."): edited(
            _ROWS,
            """
                rows = [*zip(counters, num_accepted_drafts, is_zombie, strict=True)]
                counters = [before for before, _, zombie in rows if not zombie]
                num_accepted_drafts = [drafts for _, drafts, zombie in rows if not zombie]
                """,
        ),
        ("M07", _META, "Proposed drafts are those of one verify more."): edited(
            "counters.num_verifies * num_drafts_per_round", "(counters.num_verifies + 1) * num_drafts_per_round"
        ),
        ("OWN-184", _META, "The length ignores prefill and stop."): edited(
            "num_completion_tokens / counters.num_verifies",
            "1 + counters.num_accepted_drafts / counters.num_verifies",
        ),
        ("OWN-185", _META, "No histogram where nothing was proposed."): edited(
            "counters.num_verifies == 0", "counters.num_verifies * num_drafts_per_round == 0"
        ),
    }
)
