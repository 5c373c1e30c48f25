"""Solvers that know nothing of queries: they take weighted graphs, packings and sequences of numbers."""
