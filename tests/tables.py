"""A cost table that nobody measured."""

from layoutkit.choosing.costfile import Cost

IDENTITY = {"cpu": "a", "caches": [1, 2], "cores": 2, "isa": "avx2", "version": "0", "build": "00"}
TABLE = {
    "filter o1 c1 k1 g1 f32": {"direct": Cost(1.5e-6, 2e-6, 1e-7, 3), "im2col": Cost(2.5e-6, 3e-6, 0.0, 7)},
    "reorder 2x3 ab>ba x32 t1": {"store": Cost(1e-7, 2e-7, 3e-8, 100)},
}
