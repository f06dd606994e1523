from collections.abc import Sequence

from ..executor import Executor, LoopNest

class FilterRows(Executor):
    def __init__(
        self, nest: LoopNest, channels: Sequence[int], in_place: bool, by_channel: bool,
    ) -> None: ...  # fmt: skip
