"""The command line."""

from motet.cli.app import main

__all__ = ["main"]
