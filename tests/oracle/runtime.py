"""What onnxruntime computes, where it is installed: it comes with the extra "compare", which tests do without."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def by_onnxruntime(proto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
    """The outputs of a model; None without onnxruntime."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, dict(inputs))
