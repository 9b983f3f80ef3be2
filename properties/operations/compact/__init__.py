"""Compaction: the accepted path goes to the front, in ids, hidden states and KV."""
