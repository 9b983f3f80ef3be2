"""Rows of the rules of all algorithms (semantics F.1)."""

from functools import partial

from specsim.properties.host.rules.rows.record import CHOSEN, INFO, WARNING, row, settled, tree
from specsim.rejection import Reason
from specsim.rules import Code

_row = partial(row, "F.1")
_ALIAS = (Code.ALIAS_REPLACED, INFO)
_BOUND = (Code.MAX_RUNNING_REQUESTS, WARNING)
_FROZEN = ((Code.FROZEN_KV_CHOSEN, INFO), (Code.ALGORITHM_WITHOUT_V2, WARNING))
_NO_MIX = (Code.MIXED_CHUNK_OFF, WARNING)
_NO_WINDOW = (Code.DRAFT_WINDOW_IGNORED, WARNING)
_NOTHING = (Code.NOT_SPECULATIVE, INFO)
_ASSISTANT = {"draft_architecture": "Gemma4AssistantForCausalLM"}
_UNBUFFERED = {"recurrent": True, "state_strategy": "no_buffer"}

ROWS = (
    _row("nothing open", settled()),
    _row("no algorithm", settled(None), None, _NOTHING),
    _row("the algorithm none", settled("NONE"), None, _NOTHING),
    _row("unknown name", settled("MEDUSA"), refused="algorithm", reason=Reason.UNKNOWN_NAME),
    _row("lower case", settled("eagle3"), "v2", (Code.NAME_IN_CAPITALS, INFO), CHOSEN, algorithm="EAGLE3"),
    _row("NEXTN", settled("NEXTN"), "v2", _ALIAS, CHOSEN, algorithm="EAGLE"),
    _row("EAGLE with an assistant as draft", settled(**_ASSISTANT), "v1", *_FROZEN, algorithm="FROZEN_KV_MTP"),
    _row("NEXTN with an assistant as draft", settled("NEXTN", **_ASSISTANT), "v1", _ALIAS, *_FROZEN,
         algorithm="FROZEN_KV_MTP"),
    _row("EAGLE3 with an assistant as draft", settled("EAGLE3", **_ASSISTANT), refused="algorithm"),
    _row("draft revision open", settled(draft_model_path="draft"), "v2", (Code.DRAFT_REVISION, INFO), CHOSEN,
         draft_revision="main"),
    _row("draft revision given", settled(draft_model_path="draft", draft_revision="a1")),
    _row("draft's expert kernels open", settled(draft_moe_runner_backend=None, moe_runner_backend="triton"), "v2",
         (Code.DRAFT_MOE_RUNNER, INFO), CHOSEN, draft_moe_runner_backend="triton"),
    _row("empty draft window", settled("EAGLE3", draft_window=0), refused="draft_window"),
    _row("negative draft window", settled(draft_window=-1), refused="draft_window"),
    _row("draft window of EAGLE3", settled("EAGLE3", draft_window=128)),
    _row("draft window of EAGLE", settled(draft_window=128), "v2", _NO_WINDOW, CHOSEN),
    _row("draft window of nothing", settled(None, draft_window=9), None, _NO_WINDOW, _NOTHING),
    _row("EAGLE without synchronised ranks", settled(skip_dp_mlp_sync=True)),
    _row("EAGLE3 without synchronised ranks", settled("EAGLE3", skip_dp_mlp_sync=True), refused="skip_dp_mlp_sync"),
    _row("NGRAM without synchronised ranks", settled("NGRAM", skip_dp_mlp_sync=True), refused="skip_dp_mlp_sync"),
    _row("batch bound open", settled(max_running_requests=None), "v2", _BOUND, CHOSEN, max_running_requests=48),
    _row("batch bound of NGRAM open", settled("NGRAM", max_running_requests=None, topk=10), "v1",
         _BOUND, (Code.ALGORITHM_WITHOUT_V2, WARNING), max_running_requests=48),
    _row("mixed chunk", settled(mixed_chunk=True), "v2", CHOSEN, _NO_MIX, mixed_chunk=False),
    _row("mixed chunk of FROZEN_KV_MTP", settled("FROZEN_KV_MTP", mixed_chunk=True), "v1",
         (Code.ALGORITHM_WITHOUT_V2, WARNING), _NO_MIX, mixed_chunk=False),
    _row("two pipeline stages", settled(pp_size=2), refused="pp_size"),
    _row("two pipeline stages and no drafts", settled(None, pp_size=2), None, _NOTHING),
    _row("recurrent states without buffer", settled(**_UNBUFFERED), refused="state_strategy"),
    _row("the same without shared prefixes", settled(**_UNBUFFERED, radix_cache=False)),
    _row("recurrent states with buffer", settled(recurrent=True)),
    _row("recurrent states without buffer on ROCm", settled(**_UNBUFFERED, platform="rocm"), "v2",
         (Code.RADIX_CACHE_OFF, WARNING), CHOSEN, radix_cache=False),
    _row("snapshots closer than a verify", settled(recurrent=True, snapshot_interval=3), refused="snapshot_interval"),
    _row("snapshots as far as a verify", settled(recurrent=True, snapshot_interval=4)),
    _row("close snapshots of nothing", settled(snapshot_interval=1)),
    _row("snapshots inside a page", settled(recurrent=True, snapshot_interval=6, page_size=4),
         refused="snapshot_interval"),
    _row("snapshots at ends of pages", settled(recurrent=True, snapshot_interval=8, page_size=4)),
    _row("close snapshots without a buffer", settled(**_UNBUFFERED, snapshot_interval=3, page_size=2,
                                                     radix_cache=False)),
    _row("unknown mode", settled(mode="v3"), refused="mode"),
    _row("page size 0", settled(page_size=0), refused="page_size"),
    _row("batch bound 0", settled(max_running_requests=0), refused="max_running_requests"),
    _row("threshold above 1", tree(threshold_single=1.5), refused="threshold_single"),
    _row("threshold below 0", tree(threshold_acc=-0.5), refused="threshold_acc"),
    _row("threshold that is no number", settled(threshold_acc=float("nan")), refused="threshold_acc"),
    _row("thresholds at the ends", settled(threshold_single=0.0, threshold_acc=1.0)),
)  # fmt: skip
