"""The oracle: what docs/semantics.md says, as plain enumeration. Every engine is tested against it."""

from motet.reference.run import OracleResult, evaluate

__all__ = ["OracleResult", "evaluate"]
