from ..executor import Executor, LoopNest

class Strips(Executor):
    def __init__(
        self, nest: LoopNest, channels: int, padded: int, run: int, chunks: int,
    ) -> None: ...  # fmt: skip
