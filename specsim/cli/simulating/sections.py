"""Help of ``specsim simulate``, whose options are many: section after section."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

SECTIONS = {
    "Text and requests": (
        "path",
        "prompts",
        "num_requests",
        "prompt_length",
        "max_new_tokens",
        "batch",
        "seed",
    ),
    "Drafts": (
        "algorithm",
        "drafter",
        "multi_layer",
        "topk",
        "steps",
        "draft_tokens",
        "corpora",
        "corpus_budget",
        "capacity",
    ),
    "Model and memory": ("kind", "draft", "dtype", "agreement", "pool", "draft_pool", "recurrent", "page_size"),
    "Worker and schedule": (
        "worker",
        "mode",
        "disable_overlap",
        "overlap",
        "chunk",
        "prefix_cache",
        "graphs",
        "lockstep",
    ),
    "Scheduled verification": ("verify_budget", "verify_costs", "verify_mode"),
    "Sampling": ("temperature", "top_k", "top_p", "min_p", "sampling_seed", "acceptance"),
    "Rules about logits": (
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "relaxed_penalties",
        "biases",
        "min_tokens",
        "bad_words",
    ),
    "Ends of outputs": ("eos_token", "stops", "stop_tokens", "min_new_tokens"),
    "Acceptance": ("dump", "draft_choice", "baseline", "margin"),
    "Report": (
        "as_json",
        "timeline",
        "logprobs",
        "hidden_states",
        "metrics_port",
        "metrics_address",
        "metrics_file",
        "metrics_interval",
        "help",
    ),
}
"""The options of ``specsim simulate`` by what they are about."""


class Sections(click.Command):
    """A command with sections of options, by their titles; parameters of no section stand last, under "Others"."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.sections = dict(sections)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section after section."""
        records = {
            str(parameter.name): record
            for parameter in self.get_params(ctx)
            if (record := parameter.get_help_record(ctx)) is not None
        }
        named = {name for names in self.sections.values() for name in names}
        others = [name for name in records if name not in named]
        for title, names in {**self.sections, "Others": others}.items():
            rows = [records[name] for name in names if name in records]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
