"""The second table: operations of the toy models, whose every logit is an exact integer."""
