"""Another runtime on a model, in a process of its own: two pools of threads in one process would disturb each other.

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
    """What another runtime computed, and its median seconds."""

    outputs: list[np.ndarray]
    seconds: float


def run_other(runtime: str, model: Path, inputs: Mapping[str, np.ndarray], threads: int, rounds: int) -> Other:
    """Run a model by another runtime; RuntimeError with its message if it cannot."""
    with tempfile.TemporaryDirectory(prefix="layoutkit-") as folder:
        given, made = Path(folder) / "inputs.npz", Path(folder) / "outputs.npz"
        np.savez(given, np.array(list(inputs)), *inputs.values())
        files = (str(path) for path in (model, given, made))
        command = [sys.executable, "-m", __name__, runtime, *files, str(threads), str(rounds)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{runtime}: {(done.stderr.strip() or 'it ended').splitlines()[-1]}")
        with np.load(made) as held:
            return Other([held[name] for name in held.files], float(done.stdout.split()[-1]))


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
    _, model, given, made, threads, rounds = arguments
    with np.load(given) as held:
        names, *arrays = (held[name] for name in held.files)
    inputs = dict(zip(names.tolist(), arrays))
    outputs, times = _onnxruntime(model, inputs, int(threads), int(rounds))
    np.savez(made, *outputs)
    print(median(times))


if __name__ == "__main__":
    main(sys.argv[1:])
