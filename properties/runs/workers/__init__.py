"""Every worker: what is output, which KV is kept, who owns which slot, at every size."""
