"""What ``specsim campaign`` is made of: the workers of a node, and what users read of a campaign."""
