"""Optimizers of the aggregate engine."""
