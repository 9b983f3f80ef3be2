"""Where requests end."""
