from typing import Any

class Operation:
    workspace: int
    def __call__(self, *arrays: Any) -> None: ...
