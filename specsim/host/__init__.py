"""What an engine does on the host: stops, truncation, metrics, grammar, processors, adaptive steps, sampling."""
