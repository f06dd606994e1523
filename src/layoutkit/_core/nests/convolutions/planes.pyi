from ..executor import Executor, LoopNest

class Planes(Executor):
    def __init__(
        self, nest: LoopNest, ic: int, columns: tuple[int, ...], folds: bool, by_channel: bool,
    ) -> None: ...  # fmt: skip
