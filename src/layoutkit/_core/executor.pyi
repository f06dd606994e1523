from typing import Any

class Executor:
    threads: int
    positive: bool
    def __init__(self, kernel: str, geometry: Any, threads: int) -> None: ...
