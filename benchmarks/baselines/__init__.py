"""Published baselines that motet's optimizers are compared with; importing this package registers them by name."""

from benchmarks.baselines import motto_lcse as motto_lcse
from benchmarks.baselines import sharon_exhaustive as sharon_exhaustive
