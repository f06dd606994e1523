from typing import Any

MAX_ARRAYS: int

class Operation:
    workspace: int
    def __call__(self, *arrays: Any) -> None: ...
