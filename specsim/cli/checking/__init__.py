"""What ``specsim check`` consists of: groups of its options, and its report."""
