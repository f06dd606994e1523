from typing import Any

class Executor:
    threads: int
    def __init__(self, kernel: str, geometry: Any, threads: int) -> None: ...
