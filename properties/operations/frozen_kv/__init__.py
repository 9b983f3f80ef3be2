"""What a draft that reads the target's KV is given."""
