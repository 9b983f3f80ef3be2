"""What an operation takes and returns: symbolic axes, array specs, contracts, their binding, rounding bounds."""
