"""ONNX models of float32 as models of int8, by ranges and errors that are measured on a user's arrays."""
