"""The toy models' operations on the device."""
