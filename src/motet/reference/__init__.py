"""The oracle: what docs/semantics.md says, as plain enumeration. Every engine is tested against it."""

from motet.reference.run import Result, evaluate

__all__ = ["Result", "evaluate"]
