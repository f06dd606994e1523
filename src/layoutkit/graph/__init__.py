"""Graphs of operators: layouts assigned by measured cost, and execution. ONNX models become graphs in `onnx.py`."""
