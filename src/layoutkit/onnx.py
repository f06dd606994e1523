"""ONNX models: `load` reads one, and `Unsupported` is what it raises for operators that are not there."""

from .graph.onnx import Unsupported, load

__all__ = ["Unsupported", "load"]
