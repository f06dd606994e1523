"""The version of the package, as its metadata has it."""

__version__ = "0.1.0"
