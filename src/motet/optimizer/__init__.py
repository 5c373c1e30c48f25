"""Optimizers: each writes a plan of what runs together, shared by whom and in which order."""
