"""What ``specsim bench`` saves, prints and draws."""
