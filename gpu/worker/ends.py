"""Where a V1 iteration waits for the device: the host sees what was accepted, and lets requests end."""

from specsim.assertion import require
from specsim.gpu.worker.transfer import download
from specsim.host.truncation import Truncation, truncate_at_stop
from specsim.phases import VerifyOutput
from specsim.simulation.synchronous import IterationLedger


def end_requests(
    phase: VerifyOutput, live: int, num_nodes: int, ledger: IterationLedger, counts_only_output: bool = False
) -> Truncation:
    """Wait for what the live requests accepted, and let them end on the host (semantics J.1, steps 6 and 7).

    With ``counts_only_output`` they count the drafts that were output, and keep no histogram (semantics A.14).
    """
    predict, accept_index, num_accepted_drafts = download(
        [phase.predict[: live * num_nodes], phase.accept_index[:live], phase.num_accepted_drafts[:live]]
    )
    truncation = ledger.end_requests(accept_index, predict, truncate_at_stop, counts_only_output)
    got, expected = num_accepted_drafts.tolist(), truncation.request_num_accepted_drafts.tolist()
    require(got == expected, "num_accepted_drafts", got, expected)
    return truncation
