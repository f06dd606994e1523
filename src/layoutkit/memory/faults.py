"""One error for everything that is wrong with the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Faults:
    """Runs checks that do not depend on one another, and raises once for all that failed.

    Parameters
    ----------
    what : str
        The operation, for the message.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.errors: list[Exception] = []

    def check(self, function: Callable[..., T], *args: Any, default: T) -> T:
        """What the function returns, or `default` where it raises TypeError or ValueError, which is kept."""
        try:
            return function(*args)
        except (TypeError, ValueError) as error:
            self.errors.append(error)
            return default

    def done(self) -> None:
        """Raise what was kept: one error as it is, several as one; TypeError if all are."""
        if not self.errors:
            return
        if len(self.errors) == 1:
            raise self.errors[0]
        texts = [str(e).removeprefix(f"{self.what}: ") for e in self.errors]
        kind = TypeError if all(isinstance(e, TypeError) for e in self.errors) else ValueError
        raised = kind(f"{self.what}: {len(texts)} things do not fit:" + "".join(f"\n- {text}" for text in texts))
        raised.faults = self.errors  # type: ignore[union-attr]  # for callers that add more
        raise raised
