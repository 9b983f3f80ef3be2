"""N-gram drafts: stores, corpora, and the drafts that they share."""
