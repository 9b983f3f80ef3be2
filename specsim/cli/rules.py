"""``specsim rules``: which worker runs a configuration, with which values, and why."""

from dataclasses import asdict
from typing import Any

import click

from specsim.algorithms import ALIAS_OF_EAGLE, WITH_CHECKED_SIZES, SpeculativeAlgorithm
from specsim.cli.output import EXIT_CODES, plain_table, print_json, print_table, remark, say
from specsim.counts import count_candidates, count_nodes, path_width
from specsim.rules import ExecutionPlan, ServerConfig, resolve
from specsim.rules.common import MODES, PLATFORMS, STATE_STRATEGIES

STEPS_BESIDE_TOPK = 5
DRAFT_TOKENS_OF_A_TREE = 16
DRAFT_TREES = (*WITH_CHECKED_SIZES, ALIAS_OF_EAGLE)
ALGORITHMS = ", ".join([*SpeculativeAlgorithm.__members__, ALIAS_OF_EAGLE])


@click.command(epilog=EXIT_CODES)
@click.option("--algorithm", help=f"Algorithm that drafts: {ALGORITHMS}, in any case.")
@click.option("--topk", type=int, help="Number of beams of a draft.")
@click.option("--num-steps", type=int, help=f"Depth of a draft; {STEPS_BESIDE_TOPK} beside --topk alone.")
@click.option(
    "--num-draft-tokens", type=int, help=f"Nodes of a draft, root included; at most {DRAFT_TOKENS_OF_A_TREE} if unset."
)
@click.option("--page-size", default=1, show_default=True, help="Slots of a page.")
@click.option(
    "--mode",
    default="auto",
    show_default=True,
    type=click.Choice(MODES),
    help="Worker that has to run; auto leaves it to the rules.",
)
@click.option("--disable-overlap", is_flag=True, help="Schedule between iterations only.")
@click.option("--disable-v2", is_flag=True, help="Never choose V2.")
@click.option("--recurrent", is_flag=True, help="The target has mamba or linear-attention layers.")
@click.option("--disable-radix-cache", is_flag=True, help="Share no prefixes.")
@click.option(
    "--state-strategy",
    default="extra_buffer",
    show_default=True,
    type=click.Choice(STATE_STRATEGIES),
    help="Strategy for recurrent states.",
)
@click.option("--snapshot-interval", default=256, show_default=True, help="Tokens between recurrent snapshots.")
@click.option("--max-running-requests", type=int, help="Largest batch.")
@click.option("--mixed-chunk", is_flag=True, help="Prefill chunks and decodes share a batch.")
@click.option("--attention-backend", default="flashinfer", show_default=True, help="Attention backend.")
@click.option("--decode-attention-backend", help="Attention backend of decodes, if another.")
@click.option("--prefill-attention-backend", help="Attention backend of prefills, if another.")
@click.option("--model-path", default="target", show_default=True, help="Path of the target model.")
@click.option("--revision", help="Revision of the target model.")
@click.option("--architecture", default="", help="Architecture of the target model, for example LlamaForCausalLM.")
@click.option("--draft-model-path", help="Path of the draft model.")
@click.option("--draft-revision", help="Revision of the draft model.")
@click.option("--draft-architecture", default="", help="Architecture of the draft model.")
@click.option("--draft-window", type=int, help="Sliding window of the draft.")
@click.option("--moe-runner-backend", default="auto", show_default=True, help="Backend of expert layers.")
@click.option("--draft-moe-runner-backend", help="Backend of the draft's expert layers, if another.")
@click.option("--dp-attention", is_flag=True, help="Attention is data-parallel.")
@click.option("--skip-dp-mlp-sync", is_flag=True, help="Ranks do not wait for each other in drafts.")
@click.option("--pp-size", default=1, show_default=True, help="Pipeline stages.")
@click.option("--multi-layer", is_flag=True, help="Each step of a draft has a layer of its own.")
@click.option("--two-batch-overlap", is_flag=True, help="Two halves of a batch overlap.")
@click.option("--pdmux", is_flag=True, help="Prefill and decode multiplexed on one GPU.")
@click.option("--device", default="cuda", show_default=True, help="Device of the server.")
@click.option(
    "--platform", default="cuda", show_default=True, type=click.Choice(PLATFORMS), help="Platform of the device."
)
@click.option("--packed-mask", is_flag=True, help="The tree mask is one word a node.")
@click.option("--threshold-single", default=1.0, show_default=True, help="Acceptance threshold of a token.")
@click.option("--threshold-acc", default=1.0, show_default=True, help="Acceptance threshold of a path.")
@click.option("--dflash-block-size", type=int, help="Nodes of a block of DFLASH.")
@click.option("--dflash-draft-block-size", type=int, help="Nodes of a block by the configuration of the draft model.")
@click.option("--ngram-max-bfs-breadth", default=10, show_default=True, help="Largest breadth of an NGRAM draft.")
@click.option("--ngram-corpus", help="External corpus of NGRAM.")
@click.option("--ngram-sam-budget", default=0, show_default=True, help="Number of draft tokens from the corpus.")
@click.option(
    "--ngram-corpus-max-tokens",
    default=10_000_000,
    show_default=True,
    help="Limit on the tokens of the external corpus.",
)
@click.option("--adaptive", is_flag=True, help="The number of steps follows what is accepted.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def rules(as_json: bool, disable_v2: bool, disable_radix_cache: bool, **settings: Any) -> None:
    """Print which worker runs a configuration, and why.

    The settings that the rules leave are printed with a reason for each decision.
    Settings that contradict each other are refused with what to change.
    """
    _fill_tree_sizes(settings)
    plan = resolve(ServerConfig(enable_spec_v2=not disable_v2, radix_cache=not disable_radix_cache, **settings))
    if as_json:
        print_json(document_of(plan))
    else:
        _print_plan(plan)


def document_of(plan: ExecutionPlan) -> dict[str, Any]:
    """Return a plan as JSON values."""
    reasons = [
        {
            "code": decision.code.value,
            "text": decision.text,
            "level": decision.level.value,
            "changed": list(decision.changed),
        }
        for decision in plan.decisions
    ]
    return {"worker": plan.worker, "reasons": reasons, "config": asdict(plan.config)}


def _fill_tree_sizes(settings: dict[str, Any]) -> None:
    """Give --topk the steps and draft tokens that it needs, where the algorithm would ask for them."""
    topk, steps, tokens = settings["topk"], settings["num_steps"], settings["num_draft_tokens"]
    drafts_trees = (settings["algorithm"] or "").upper() in DRAFT_TREES
    if not drafts_trees or topk is None or topk < 1 or tokens is not None:
        return
    if steps is None:
        settings["num_steps"] = steps = STEPS_BESIDE_TOPK
        remark(f"--num-steps is {steps}, because --topk is given alone")
    if steps >= 1 and topk > 1:
        most = min(DRAFT_TOKENS_OF_A_TREE, count_nodes(count_candidates(topk, steps)))
        settings["num_draft_tokens"] = max(most, path_width(steps))
        remark(f"--num-draft-tokens is {settings['num_draft_tokens']}, because a tree needs a number")


def _print_plan(plan: ExecutionPlan) -> None:
    say(f"worker {plan.worker or 'none'}{', overlapped' if plan.is_overlapped else ''}")
    reasons = plain_table("reason", "level", "text", title="\nreasons")
    for decision in plan.decisions:
        reasons.add_row(decision.code.value, decision.level.value, decision.text)
    print_table(reasons)
    plain, changed = vars(ServerConfig()), {name for decision in plan.decisions for name in decision.changed}
    values = plain_table("setting", "value", "set by", title="\nsettings that are not the default")
    for name, value in vars(plan.config).items():
        if value != plain[name]:
            values.add_row(name, str(value), "a rule" if name in changed else "the user")
    print_table(values)
