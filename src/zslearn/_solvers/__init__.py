"""Numerical solvers with certificates; `zslearn.solvers` shows the entry points."""
