"""Optimizers: each writes a plan of what queries share, within a time budget, and says how good it is."""
