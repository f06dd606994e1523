"""A user's arrays as the inputs of runs."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ..ir import TensorType

BATCH = 8  # samples in a run, where the model leaves it open

Inputs = dict[str, np.ndarray]


def runs_of(types: Mapping[str, TensorType], samples: Any) -> list[Inputs]:
    """The inputs of each run. Arrays whose first axis counts samples are cut; the items of a list are run as they are.

    Raises
    ------
    TypeError, ValueError
        Samples that the model does not take, that are none, or that are not finite.
    """
    if not types:
        raise ValueError("samples: the model has no inputs to give samples to")
    if isinstance(samples, (list, tuple)):
        runs = [_checked(types, item, f"samples[{i}]") for i, item in enumerate(samples)]
    elif isinstance(samples, (Mapping, np.ndarray)):
        runs = _cut(types, _checked(types, samples, "samples", cut=True))
    else:
        expected = "a dict of arrays by input, an array where there is one input, or a list of these"
        raise TypeError(f"samples: expected {expected}, got {type(samples).__name__}")
    if not runs:
        raise ValueError("samples: there are none")
    return runs


def samples_in(path: Path) -> dict[str, np.ndarray] | np.ndarray:
    """The arrays of a file of numpy's."""
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            return found if isinstance(found, np.ndarray) else {name: found[name] for name in found.files}
    except (ValueError, EOFError, BadZipFile, zlib.error) as error:  # numpy's tells how to load what must not be loaded
        raise ValueError(f"{path}: expected a file of numpy.savez or numpy.save, of numbers, whole") from error


def _checked(types: Mapping[str, TensorType], item: Any, what: str, cut: bool = False) -> Inputs:
    """Arrays by the name of the input, in the model's order; `cut`: the first extent may be that of several runs."""
    if isinstance(item, np.ndarray):
        if len(types) != 1:
            raise TypeError(f"{what}: the model has several inputs: expected a dict of {', '.join(types)}")
        item = {name: item for name in types}
    if not isinstance(item, Mapping):
        raise TypeError(f"{what}: expected a dict of arrays by input, got {type(item).__name__}")
    wrong = [f"{name!r} is no input" for name in item if name not in types]
    wrong += [f"{name!r} is missing" for name in types if name not in item]
    if wrong:
        raise ValueError(f"{what}: {'; '.join(wrong)}; the inputs are {', '.join(types)}")
    return {name: _array(np.asarray(item[name]), of, f"{what}: input {name!r}", cut) for name, of in types.items()}


def _array(array: np.ndarray, of: TensorType, what: str, cut: bool) -> np.ndarray:
    if array.dtype != of.dtype:
        raise TypeError(f"{what}: expected dtype {of.dtype}, got {array.dtype}")
    first = 1 if cut else 0
    fits = array.ndim == len(of.shape) and all(
        isinstance(n, str) or n == m for n, m in zip(of.shape[first:], array.shape[first:])
    )
    if not fits:
        raise ValueError(f"{what}: expected shape {_written(of.shape)}, got {array.shape}")
    if not array.size:
        raise ValueError(f"{what}: an array of shape {array.shape} has no elements")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{what}: expected finite numbers, got NaN or infinity")
    return array


def _cut(types: Mapping[str, TensorType], arrays: Inputs) -> list[Inputs]:
    """Inputs of as many runs as their first axis has batches of the model."""
    given = [array.shape[:1] for array in arrays.values()]
    declared = [types[name].shape[:1] for name in arrays]
    same = len(set(given)) == 1 and bool(given[0])  # the first axes may count the same
    step: int | str = 0
    if all(isinstance(n, str) for (n,) in filter(None, declared)):
        step = BATCH if same else 0
    elif given != declared:
        step = declared[0][0] if same and len(set(declared)) == 1 else 0
        if not isinstance(step, int) or not step or given[0][0] % step:
            shapes = ", ".join(f"{name!r}: {a.shape} for {_written(types[name].shape)}" for name, a in arrays.items())
            raise ValueError(f"samples: the first axes are not of the same whole number of runs: {shapes}")
    if not isinstance(step, int) or not step:
        return [arrays]
    return [{name: a[i : i + step] for name, a in arrays.items()} for i in range(0, given[0][0], step)]


def _written(shape: Sequence[int | str]) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
