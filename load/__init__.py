"""The package name of the load generator. This version has none: the package holds no code."""
