from ..executor import Executor, LoopNest

class PlaneStrips(Executor):
    def __init__(self, nest: LoopNest, channels: int, chunks: int) -> None: ...
