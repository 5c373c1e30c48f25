"""Optimizers: each plans what queries compute together, and in which order they join.

`motet.optimizer.registry` has them by name. Importing this package registers those that come with motet.
"""

from motet.optimizer import builtin as builtin
