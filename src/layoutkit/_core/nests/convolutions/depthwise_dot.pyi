from collections.abc import Sequence

from ..executor import Executor, LoopNest

class DepthwiseDot(Executor):
    def __init__(
        self, nest: LoopNest, channels: Sequence[int], pieces: Sequence[object], rows: Sequence[object],
        columns: Sequence[int],
    ) -> None: ...  # fmt: skip
