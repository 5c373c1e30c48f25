"""Experiments: what the papers measured and what we promise, each by one command (`motet bench`)."""
