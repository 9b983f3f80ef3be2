"""What ``specsim simulate`` consists of: groups of its options, and what it drafts on."""
