"""Sharon (Poppe et al., ICDE 2018): which runs of symbols sequence queries compute together."""
