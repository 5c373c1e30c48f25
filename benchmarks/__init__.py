"""Benchmarks: each a module run by `python -m benchmarks.NAME`, comparing within one run."""
