"""DLPack of types that numpy does not export: it takes and gives their bits as unsigned integers, the type is set here.

A capsule holds a struct whose DLTensor says the type: after data, device and rank a byte for the kind of number and one
for its bits. The struct belongs to the holder of a capsule that has not been used.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

FLAGS = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)  # numpy's DLPack is 1.0, with flags: read-only, copied

# Kind and bits, as in dlpack.h, of ml_dtypes' types that reorders know; the kind of unsigned integers.
NARROW = {"bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8)}
_UINT = 1
# Kinds that numpy and reorders do not have, for errors, and devices whose memory is the processor's, with some others.
OTHER_KINDS = {
    5: "complex", 7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn",
    11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu", 15: "float6_e2m3fn",
    16: "float6_e3m2fn", 17: "float4_e2m1fn",
}  # fmt: skip
HOST = (1, 3, 11)  # CPU, and memory of it that CUDA and ROCm have pinned
DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI"}
# Offset of the type in the struct of a capsule of this name, in bytes.
_TYPE_OFFSETS = {b"dltensor": 20, b"dltensor_versioned": 52}

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def exported(array: np.ndarray, **keywords: Any) -> Any:
    """The capsule of `array`, of any type."""
    kind = NARROW.get(array.dtype.name)
    if kind is None:
        return array.__dlpack__(**keywords)
    capsule = array.view(f"u{array.itemsize}").__dlpack__(**keywords)
    _type_of(capsule)[:2] = kind
    return capsule


def imported(value: Any, what: str) -> np.ndarray:
    """What a producer exports, as an array of the same memory: of types that numpy does not have in those of ml_dtypes
    where that is installed, else their bits. BufferError names `what`."""
    try:
        device, number = value.__dlpack_device__()
    except (TypeError, ValueError) as error:
        raise BufferError(f"{what}: {type(value).__name__} by DLPack: {error}") from error
    if device not in HOST:
        where = f"{DEVICES.get(int(device), f'DLPack device {int(device)}')} {number}"
        raise BufferError(f"{what}: {type(value).__name__} lies on {where}; expected memory of the CPU")
    try:
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError):
            capsule = _Capsule(value)
            if capsule.dtype is None:
                if capsule.name:
                    raise BufferError(f"elements of {capsule.name} are not supported") from None
                raise
        return np.from_dlpack(capsule).view(capsule.dtype)
    except (BufferError, RuntimeError, TypeError) as error:
        raise BufferError(f"{what}: {type(value).__name__} by DLPack: {error}") from error


class _Capsule:
    """The tensor of a producer, of a type in `NARROW`, as one of unsigned integers; of others `dtype` is None."""

    def __init__(self, value: Any) -> None:
        try:
            self._capsule = value.__dlpack__(**({"max_version": (1, 0)} if FLAGS else {}))
        except TypeError:  # a producer of before DLPack 1.0, whose tensors numpy takes for read-only
            self._capsule = value.__dlpack__()
        self._device, self.dtype = value.__dlpack_device__(), None
        element_type = _type_of(self._capsule)
        name = next((name for name, kind in NARROW.items() if tuple(element_type[:2]) == kind), None)
        if name is None:
            self.name = OTHER_KINDS.get(element_type[0], "")
            return
        element_type[0] = _UINT
        try:
            import ml_dtypes
        except ImportError:
            self.dtype = np.dtype(f"u{element_type[1] // 8}")
        else:
            self.dtype = np.dtype(getattr(ml_dtypes, name))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule


def _type_of(capsule: Any) -> Any:
    """The bytes of a capsule's struct that say the type: kind, bits, and two for lanes."""
    name = _name_of(capsule)
    if name not in _TYPE_OFFSETS:
        raise BufferError(f"DLPack: a capsule named {name!r}, expected one of {', '.join(map(repr, _TYPE_OFFSETS))}")
    return (ctypes.c_uint8 * 4).from_address(_pointer_of(capsule, name) + _TYPE_OFFSETS[name])
