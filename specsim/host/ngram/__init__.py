"""Drafts from text alone: a store of what was said, texts from outside, and the trees that are grown from both."""

from specsim.host.ngram.corpus import NgramCorpus
from specsim.host.ngram.draft import NgramDraft
from specsim.host.ngram.merging import draft_with_corpora, merge_drafts, share_draft_nodes
from specsim.host.ngram.parameters import LARGEST_TOKEN, NgramParameters, TreeMode
from specsim.host.ngram.store import NgramStore

__all__ = [
    "LARGEST_TOKEN",
    "NgramCorpus",
    "NgramDraft",
    "NgramParameters",
    "NgramStore",
    "TreeMode",
    "draft_with_corpora",
    "merge_drafts",
    "share_draft_nodes",
]
