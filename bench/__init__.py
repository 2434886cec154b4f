"""The gateway measured beside its peers. `python -m bench`; bench/README.md tells the method."""
