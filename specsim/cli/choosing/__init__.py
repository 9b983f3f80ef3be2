"""What ``specsim sweep`` and ``specsim tune`` share: where acceptance comes from, and how it is shown."""
