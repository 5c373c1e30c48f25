"""Scenarios that every peer answers, and the scripts by which each does."""
