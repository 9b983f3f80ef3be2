"""From logits to the target's rows: temperature, filters, penalties."""
