"""Windows of multi-layer drafts, and hidden states that wait for them."""
