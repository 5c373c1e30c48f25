"""MOTTO (Zhang et al., ICDE 2017): detection queries share by merging, decomposition and transformation."""
