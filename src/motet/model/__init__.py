"""The model of a workload: frozen, comparable values that every other layer reads."""
