"""The end of a pipe at which a process of a comparison answers: JSON, a line for each request and each answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any


def answering() -> Callable[..., None]:
    """What answers on standard output from now on: ``answer(name=value, ..)``. All else that is printed there goes to
    standard error: libraries print, too."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**data: Any) -> None:
        print(json.dumps(data), file=answers, flush=True)

    return answer
