"""Solvers that know nothing of queries: weighted graphs, packings and sequences of numbers in, sets out."""
