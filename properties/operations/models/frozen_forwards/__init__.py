"""The forward of a draft without KV."""
