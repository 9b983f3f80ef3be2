"""What one phase hands to the next."""
