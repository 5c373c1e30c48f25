"""Published baselines: optimizers, which importing this package registers by name, and the papers' own executors."""

from benchmarks.baselines import motto_lcse as motto_lcse
from benchmarks.baselines import sharon_exhaustive as sharon_exhaustive
from benchmarks.baselines import spass as spass
from benchmarks.baselines import tabu as tabu
