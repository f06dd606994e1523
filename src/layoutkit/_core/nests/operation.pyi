from typing import Any

MOST_ARRAYS: int

class Operation:
    workspace: int
    def __call__(self, *arrays: Any) -> None: ...
