"""ONNX models: `load` reads one, and `Unsupported` is what it raises for operators that are not there.

What `layoutkit.quantize` returns is a `Quantized`.
"""

from .graph.loading import load
from .graph.onnx import Unsupported
from .graph.quantize.report import LayerReport, Quantized

__all__ = ["LayerReport", "Quantized", "Unsupported", "load"]
