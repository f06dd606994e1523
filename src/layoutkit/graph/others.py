"""Running a model by another runtime, in its own process: two thread pools in one process would disturb each other.

``python -m layoutkit.graph.others onnxruntime MODEL INPUTS.npz OUTPUTS.npz THREADS ROUNDS`` prints the median seconds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

RUNTIMES = ("onnxruntime",)


class Other(NamedTuple):
    """The results of another runtime, and its median seconds."""

    outputs: list[np.ndarray]
    seconds: float


def run_other(runtime: str, model: Path, inputs: Mapping[str, np.ndarray], threads: int, rounds: int) -> Other:
    """Run a model by another runtime; RuntimeError with its message if it cannot."""
    with tempfile.TemporaryDirectory(prefix="layoutkit-") as folder:
        inputs_file, outputs_file = Path(folder) / "inputs.npz", Path(folder) / "outputs.npz"
        np.savez(inputs_file, np.array(list(inputs)), *inputs.values())
        files = (str(path) for path in (model, inputs_file, outputs_file))
        command = [sys.executable, "-m", __name__, runtime, *files, str(threads), str(rounds)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{runtime}: {(done.stderr.strip() or 'it ended').splitlines()[-1]}")
        with np.load(outputs_file) as archive:
            return Other([archive[name] for name in archive.files], float(done.stdout.split()[-1]))


def _onnxruntime(model: str, inputs: Mapping[str, np.ndarray], threads: int, rounds: int) -> tuple[list, list[float]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    outputs, times = session.run(None, dict(inputs)), []
    for _ in range(rounds):
        start = time.perf_counter()
        session.run(None, dict(inputs))
        times.append(time.perf_counter() - start)
    return outputs, times


def main(arguments: list[str]) -> None:
    """The process of `run_other`."""
    _, model, inputs_file, outputs_file, threads, rounds = arguments
    with np.load(inputs_file) as archive:
        names, *arrays = (archive[name] for name in archive.files)
    inputs = dict(zip(names.tolist(), arrays))
    outputs, times = _onnxruntime(model, inputs, int(threads), int(rounds))
    np.savez(outputs_file, *outputs)
    print(median(times))


if __name__ == "__main__":
    main(sys.argv[1:])
