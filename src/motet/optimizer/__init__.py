"""Optimizers: what runs together, and in which order."""
