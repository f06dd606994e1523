"""The text of the cost tables that come with the package: the least time of each candidate, and its estimate's error.

    layoutkit's shipped costs 3, in microseconds, of {"cpu": "..", "caches": [49152, 1048576], "isa": "avx2", ..}
    0 store allx64
    1 direct gemm_6x64_f32_avx512

    filter o1 c1 k1 g1 f32 | 1:1.5:-20 | 0 0 0 0
    reorder 1x64x56x56 NCHW>NHWC x32 t1 | 0:18.3:4 2:44.2 | 0 0 0 0 3331 100 800 1361 681 400 0 200 100
    crc32 3632233996

A legend of the candidates' names, the commonest first, then a line a problem, best first: candidate, time to three
digits, log(time / estimate) in hundredths where there is an estimate; then the problem's features, in hundredths. So
estimates of other problems are corrected without parsing and estimating these; after a change of estimates or features,
`python bench/choice.py --renew` writes the new ones. The checksum covers every line above it. As in `costfile`, keys
are checked when a table is read, costs when they are asked for.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import files, keys
from .costfile import MAX_SECONDS, Cost

VERSION = 3
MAX_BYTES = 1 << 20  # of a table that is read
MAX_TITLE = 1 << 16  # characters of its first line
DIGITS = 3  # that a time is told to

_TITLE = f"layoutkit's shipped costs {VERSION}, in microseconds, of "
_SEPARATOR = " | "  # a key and its costs
_COST = re.compile("([0-9]{1,4}):([0-9.e-]{1,20})(?::(-?[0-9]{1,4}))?")


def no_estimates(key: str) -> Mapping[str, float]:
    """Logarithmic errors where nothing is estimated."""
    return {}


def no_features(key: str) -> Sequence[float]:
    """Features where nothing has any."""
    return ()


def dump(
    costs: Mapping[str, Mapping[str, Cost]],
    identity: Mapping[str, object],
    log_errors: Callable[[str], Mapping[str, float]] = no_estimates,
    features: Callable[[str], Sequence[float]] = no_features,
) -> str:
    """The table's text; `log_errors` gives log(time / estimate) by candidate of a key, `features` those of its problem.

    Raises
    ------
    ValueError
        A key or a name is none that the text can hold.
    """
    counts = Counter(name for candidates in costs.values() for name in candidates)
    names = sorted(counts, key=lambda name: (-counts[name], name))
    numbers = {name: i for i, name in enumerate(names)}
    lines = [_TITLE + json.dumps(identity), *(f"{i} {name}" for name, i in numbers.items()), ""]
    for key in sorted(costs):
        errors = {name: f":{round(100 * error)}" for name, error in log_errors(key).items()}
        best_first = sorted(
            (_rounded(1e6 * cost.min), numbers[name], errors.get(name, "")) for name, cost in costs[key].items()
        )
        fields = key, " ".join(f"{i}:{x:.15g}{error}" for x, i, error in best_first), _hundredths(features(key))
        lines.append(_SEPARATOR.join(fields))
    body = "".join(f"{line}\n" for line in lines)
    if body.count("\n") != len(lines) or any(map(keys.why_invalid, costs)):
        raise ValueError("a key that no table may hold, or a line end in a key or a name")
    return f"{body}{_checksum(body)}"


def _hundredths(values: Sequence[float]) -> str:
    return " ".join(f"{round(100 * x)}" for x in values)


def _rounded(x: float) -> float:
    return float(f"{x:.{DIGITS}g}")


def _checksum(body: str) -> str:
    return f"crc32 {zlib.crc32(body.encode())}\n"


class Shipped(Mapping[str, dict[str, Cost]]):
    """The costs of a text, problem by problem; each is parsed when it is first asked for.

    Attributes
    ----------
    machine : dict
        The identity that the text was measured on.

    Raises
    ------
    ValueError
        The text is not such a table, or damaged.
    """

    def __init__(self, text: str) -> None:
        if not text.startswith(_TITLE):
            raise ValueError(f"not a table of version {VERSION} of layoutkit's shipped costs")
        end = text.rfind("\n", 0, -1) + 1
        if text[end:] != _checksum(text[:end]):
            raise ValueError("its checksum does not fit: damaged, or changed by hand")
        head, opening, problems = text[:end].partition("\n\n")
        title, *legend = head.split("\n")
        numbered = [line.partition(" ") for line in legend]
        if not opening or [i for i, _, _ in numbered] != [str(i) for i in range(len(numbered))]:
            raise ValueError("not laid out as a table of shipped costs is")
        self.machine = _identity(title)
        self._names = [name for _, _, name in numbered]
        fields = (line.rsplit(_SEPARATOR, 2) for line in problems.split("\n"))
        of_keys = [three for three in fields if len(three) == 3 and not keys.why_invalid(three[0])]
        self._text = {key: costs for key, costs, _ in of_keys}
        self._features = {key: features for key, _, features in of_keys}
        self._parsed: dict[str, list[tuple[str, Cost, float | None]]] = {}
        self._errors: dict[str, Mapping[str, float]] = {}

    def __getitem__(self, problem: str) -> dict[str, Cost]:
        """The costs of a problem; none where they are nonsense."""
        return {name: cost for name, cost, _ in self._candidates(problem)}

    def features(self, problem: str) -> list[float]:
        """The features of a problem; none where they are nonsense."""
        try:
            return [int(text) / 100 for text in self._features[problem].split()]
        except ValueError:
            return []

    def by_features(self, operation: str) -> tuple[list[str], np.ndarray]:
        """The problems of an operation, and a column of each for every feature; ValueError where some have none."""
        of = [key for key in self._features if keys.operation(key) == operation]
        texts = [self._features[key] for key in of]
        if len({text.count(" ") for text in texts}) > 1 or not all(texts):
            raise ValueError(f"problems of {operation!r} without features, or with other ones")
        numbers = np.array(" ".join(texts).split(), float)
        return of, np.ascontiguousarray(numbers.reshape(len(of), -1).T) / 100 if of else numbers

    def log_errors(self, problem: str) -> Mapping[str, float]:
        """log(time / estimate) of the candidates that have an estimate."""
        errors = self._errors.get(problem)
        if errors is None:
            errors = {name: error for name, _, error in self._candidates(problem) if error is not None}
            self._errors[problem] = errors
        return errors

    def _candidates(self, problem: str) -> list[tuple[str, Cost, float | None]]:
        candidates = self._parsed.get(problem)
        if candidates is None:
            try:
                candidates = list(map(self._candidate, self._text[problem].split(" ")))
            except (ValueError, IndexError):
                candidates = []
            self._parsed[problem] = candidates
        return candidates

    def _candidate(self, text: str) -> tuple[str, Cost, float | None]:
        fields = _COST.fullmatch(text)
        seconds = float(fields[2]) / 1e6 if fields else 0.0
        if not fields or not 0 < seconds <= MAX_SECONDS:
            raise ValueError(f"{text!r} is not the number of a candidate, a time and perhaps an error")
        error = None if fields[3] is None else int(fields[3]) / 100
        return self._names[int(fields[1])], Cost(seconds, seconds, 0.0, 1), error

    def __contains__(self, problem: object) -> bool:
        return problem in self._text

    def __iter__(self) -> Iterator[str]:
        return iter(self._text)

    def __len__(self) -> int:
        return len(self._text)


def _identity(title: str) -> dict[str, Any]:
    try:
        return dict(json.loads(title.removeprefix(_TITLE)))
    except (RecursionError, TypeError) as error:
        raise ValueError(f"the machine's identity is none: {error}") from None


def machine(path: Path) -> dict[str, Any]:
    """The identity that the table in a file was measured on, of its first line; OSError or ValueError where there is
    none."""
    with path.open(encoding="utf-8") as file:
        return _identity(file.readline(MAX_TITLE))


def read(path: Path) -> Shipped:
    """The table in a file; OSError or ValueError where there is none."""
    return Shipped(files.text(path, MAX_BYTES))


EMPTY = Shipped(dump({}, {}))
