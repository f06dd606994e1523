from collections.abc import Sequence

import numpy as np

def move(
    name: str, src: int, dst: int, n: Sequence[int], s: Sequence[int], d: Sequence[int], *,
    stream: bool = False, prefetch_bytes: int = 0, outer: Sequence[int] = (0, 0, 0, 0), valid: int = 0,
    pad: bytes | None = None,
) -> None: ...  # fmt: skip
def convert(
    name: str, src_type: int, dst_type: int, src: int, dst: int, n: Sequence[int], s: Sequence[int],
    d: Sequence[int], *, p: Sequence[int] = (0, 0), sub: int = 0, mul: int = 0, inv: int = 0, off: int = 0,
    add: int = 0, high: int = 0, low: int = 0, divide: bool = False, alpha: float = 1, beta: float | None = None,
    stream: bool = False, prefetch_bytes: int = 0,
) -> None: ...  # fmt: skip
def packed(
    name: str, src: int, dst: int, n: Sequence[int], *, at: int = 0, s: Sequence[int] = (0, 1), d: int = 0,
    signed: bool = False,
) -> None: ...  # fmt: skip
def gemm(
    name: str, *, a: int, row: np.ndarray, tap: np.ndarray, zero: int, kb: int, kb_last: int, b: int, ldb: int,
    c: int, c_row: np.ndarray, c_col: np.ndarray, cols: int, mask: np.ndarray | None = None, blocks: int = 1,
    block_stride: int = 0, bias_col: int = 0, bias_row: int = 0, c_split: bool = False, accumulate: bool = False,
    clip: int | None = None, prefetch_c: bool = False, pads: int = 0, resume: bool = False,
    positive: bool = False, b_row: np.ndarray | None = None, chunks: Sequence[int] | None = None,
    narrow: bool = False,
) -> None: ...  # fmt: skip
def winograd_in(
    name: str, *, src: int, strides: Sequence[int], inside: Sequence[int], channels: int, block: int,
    block_stride: int, v: int, v_stride: int, table: int, pad: int = 0, flip: int = 0,
) -> None: ...  # fmt: skip
def winograd_out(
    name: str, *, m: int, m_stride: int, dst: int, strides: Sequence[int], rows: int, cols: int, channels: int,
    block: int, block_stride: int, bias: int, table: int,
) -> None: ...  # fmt: skip
def winograd_filter(
    name: str, *, w: int, w_stride: int, count: int, width: int, gh: np.ndarray, gw: np.ndarray, u: int,
    u_stride: int,
) -> None: ...  # fmt: skip
def strips(
    name: str, *, x: int, x_strides: Sequence[int], w: int, bias: int, y: int, y_strides: Sequence[int], rows: int,
    cols: int, step: int, inside: int, top: int, bottom: int, vectors: int, x_lanes: int = 0, y_lanes: int = 0,
    positive: bool = False, wide: bool = True,
) -> None: ...  # fmt: skip
def plane_strips(
    name: str, *, x: int, x_strides: tuple[int, int], w: int, bias: int, y: int, y_strides: tuple[int, int],
    planes: int, rows: int, top: int, bottom: int, x_lanes: np.ndarray, y_lanes: int, masked: bool,
    positive: bool = False,
) -> None: ...  # fmt: skip
def quads(
    name: str, *, row: np.ndarray, column: np.ndarray, at: np.ndarray, sizes: np.ndarray, zero: int, panel: int, w: int,
    bias: int, s: int, s_at: np.ndarray, s_strides: tuple[int, int], span: Sequence[int], taps: tuple[int, int],
    kw: int, rows: int, packed_rows: int, cols: int, vectors: int, whole: int, flip: int = 0, lanes: int = 0,
    order: np.ndarray | None = None, rounding: tuple | None = None, segments: int = 1, s_whole: bool = True,
    s_bytes: int = 0,
) -> None: ...  # fmt: skip
