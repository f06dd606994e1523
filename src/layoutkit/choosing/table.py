"""The measured cost table: what every candidate of a problem took on this machine.

One file (see `costfile`) per machine identity in the user's cache directory (``LAYOUTKIT_CACHE_DIR``), data only.
Writers lock, merge with what others wrote, and replace the file whole. A file that is damaged or of another machine
counts as empty, with one warning; one that the caller names is an error. Modules that only look-ups and saves need are
imported there, so that importing layoutkit stays cheap.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from .._core.runtime import process
from .._core.runtime.guard import Lock
from . import files, machine
from .costfile import MAX_BYTES, Cost, CostFile, Costs, adopt, dump_within, merge, shortened
from .keys import why_invalid
from .unsaved import Unsaved, costs_with
from .warn import warn

READ_ONLY = "LAYOUTKIT_READ_ONLY"
EXIT_SECONDS = 2.0  # that the end of a process waits for others that write the table


@lru_cache(64)
def _path(root: str, identity: str) -> Path:
    import hashlib

    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return Path(root) / f"costs-{key}.json"


@lru_cache(1)
def _cache_dir() -> str:
    from platformdirs import user_cache_dir

    return user_cache_dir("layoutkit", appauthor=False)


def folder() -> str:
    """Where the tables of all machines are kept."""
    return os.environ.get("LAYOUTKIT_CACHE_DIR") or _cache_dir()


def path_of(identity: Mapping[str, object]) -> Path:
    """Where the table of a machine of this identity is kept."""
    return _path(folder(), json.dumps(identity))


def read(path: str | os.PathLike) -> CostFile:
    """The table in a file; OSError or ValueError where there is none."""
    return CostFile(files.text(path, MAX_BYTES))


def write(path: Path, costs: Mapping[str, Mapping[str, Cost]], identity: Mapping[str, object]) -> None:
    """Put a table in place, whole or not at all."""
    files.replace(path, content_of(path, costs, identity))


def content_of(path: Path, costs: Mapping[str, Mapping[str, Cost]], identity: Mapping[str, object]) -> bytes:
    """The file of a table, as it will be read."""
    valid = {problem: candidates for problem, candidates in costs.items() if candidates and not why_invalid(problem)}
    try:
        return dump_within(MAX_BYTES, valid, identity)
    except ValueError as error:
        raise OSError(errno.EFBIG, f"{error}, which is what tables may have", str(path)) from None


class CostTable:
    """The costs measured on this machine: read on first use, written by `save`.

    A process has one table: a copy is itself, and a pickle of it means the table of the process that reads it. `export`
    and `merge` bring costs along.

    Attributes
    ----------
    generation : int
        Changes whenever a decision could: what plans made from the table are cached under.
    loads : int
        How often `load` has read a table: with each, what was known before may be gone.
    learnt : set of (str, str)
        Problems and candidates whose costs were learnt by use in this process.
    read_only : bool
        Nothing is ever written; ``LAYOUTKIT_READ_ONLY=1`` sets it from the start.
    """

    def __init__(self) -> None:
        # By path: the instruction set in use and the cache directory may change while the process runs.
        self._saved: dict[Path, Mapping[str, dict[str, Cost]]] = {}
        # By process too: a forked child reads what its parent has not saved, but leaves saving it to the parent.
        self._unsaved: dict[tuple[int, Path], Unsaved] = {}
        self._doubtful: dict[Path, Costs] = {}
        self._warned: set[Path] = set()
        self._lock = Lock(again=True)
        self._saves_at_exit = False
        self.read_only = os.environ.get(READ_ONLY, "0") not in ("", "0")
        self.generation = self.loads = 0
        self.learnt: set[tuple[str, str]] = set()

    def __reduce__(self) -> str:
        if self is not cost_table:
            raise TypeError("CostTable: a table that is not lk.cost_table cannot be copied or pickled; export it")
        return "cost_table"  # there is one in a process: copies are itself, and a pickle means the table of its reader

    def __repr__(self) -> str:
        count, path = len(self.problems()), self.path
        changed = len(self._own_changes(path).problems)
        return f"CostTable({count} problems, {changed} of them changed since they were saved, {str(path)!r})"

    def _repr_html_(self) -> str:
        from collections import Counter

        from ..pages import fragment
        from .keys import operation

        counts = Counter(map(operation, self.problems()))
        rows = [(name, str(count)) for name, count in counts.most_common()]
        return fragment([f"Cost table of {machine.cpu_model()}", str(self.path)], ("operation", "problems"), rows)

    def _own_changes(self, path: Path) -> Unsaved:
        """What this process has not saved of the table at `path`."""
        return self._unsaved.setdefault((process.forks(), path), Unsaved())

    def _all_changes(self, path: Path) -> list[Unsaved]:
        """That, and what its parents had not saved when it was forked."""
        return [unsaved for (_, changed_path), unsaved in self._unsaved.copy().items() if changed_path == path]

    @property
    def path(self) -> Path:
        """Where the table of this machine and instruction set lives."""
        return path_of(machine.identity())

    def load(self, path: str | os.PathLike | None = None) -> None:
        """Read the table again, or the one in the file `path` in its place, for this process.

        What was recorded since and not saved is kept; what was forgotten and not saved is there again.

        Parameters
        ----------
        path : path, optional
            A file that `export` wrote, on a machine like this one.

        Raises
        ------
        ValueError, OSError
            `path` is given and is no table, or one of another machine or build.
        """
        with self._lock.held():
            here = self.path
            self._saved[here] = self._read(here) if path is None else self._read_other(path)
            for unsaved in self._all_changes(here):
                unsaved.forgotten = set()
            self.generation += 1
            self.loads += 1

    def merge(self, path: str | os.PathLike) -> None:
        """Add what another table of this machine measured; `save` makes it last.

        What is known already by as many timings and no higher a least time stays as it is: a table that was loaded or
        merged before changes nothing.

        Parameters
        ----------
        path : path
            A file that `export` wrote, on a machine like this one.

        Raises
        ------
        ValueError, OSError
            As `load`.
        """
        self.adopt(self._read_other(path))

    def adopt(self, costs: Costs) -> None:
        """Add costs that another process on a machine like this one measured, as `merge` does those in a file.

        Parameters
        ----------
        costs : dict
            By problem, what its candidates took.
        """
        with self._lock.held():
            known = {problem: self._measured(problem) for problem in costs}
            adopt(self._own_changes(self.path).merged, costs)
            if adopt(known, costs):
                self.generation += 1

    def forget(self, problem: str | None = None, *, containing: str | None = None) -> int:
        """Forget what was measured: in this process now, in the file once it is saved. Returns of how many problems.

        Another process that measured one of them before that `save` loses it, too; all else that others write stays.
        `load` brings back what has not been saved.

        Parameters
        ----------
        problem : str, optional
            One problem, by its key: the `title` of a plan.
        containing : str, optional
            All problems whose keys have this text in them: ``"NHWC"``, ``"conv "``. Without both arguments all are
            forgotten.

        Raises
        ------
        KeyError
            There is no such problem.
        """
        if problem is not None and containing is not None:
            raise TypeError("cost_table.forget: expected a problem or containing, got both")
        for name, value in (("problem", problem), ("containing", containing)):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"cost_table.forget: {name}: expected a text, got {type(value).__name__}")
        with self._lock.held():
            path = self.path
            known = {*self.problems(), *self._doubtful.get(path, ()), *self._read(path)}
            forgotten = {key for key in known if problem in (None, key) and (containing or "") in key}
            if problem is not None and not forgotten:
                raise KeyError(f"cost_table.forget: problem {problem!r} is none of the {len(known)} that are known")
            for unsaved in self._all_changes(path):
                unsaved.forget(forgotten)
            doubtful = self._doubtful.get(path, {})
            self._doubtful[path] = {key: costs for key, costs in doubtful.items() if key not in forgotten}
            self._own_changes(path).forgotten |= forgotten
            self.learnt = {learnt for learnt in self.learnt if learnt[0] not in forgotten}
            self.generation += 1
            self.loads += 1
        return len(forgotten)

    def export(self, path: str | os.PathLike) -> Path:
        """Write all that is known to a file, for `load` and `merge` on machines like this one; returns its path.

        Parameters
        ----------
        path : path
            The file, in a folder that exists; it is replaced as a whole.

        Raises
        ------
        OSError
            It cannot be written.
        """
        path = Path(path)
        with self._lock.held():
            costs = {p: self._measured(p) for p in self.problems()}
        try:
            write(path, costs, machine.identity())
        except OSError as error:  # names the file that would have been renamed
            why = error.strerror if path.parent.is_dir() else f"{str(path.parent)!r} is no folder"
            raise OSError(error.errno, f"cost_table.export: path: {why}", str(path)) from None
        return path

    def save(self, timeout: float = 60.0) -> Path:
        """Write what was recorded, merged with what other processes wrote; returns the path.

        Where this machine has no profile yet, it is measured then, which takes a second.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for other processes that write it.

        Raises
        ------
        OSError
            The table is read-only, its directory cannot be written, or (TimeoutError) others did not end writing.
        """
        path = self._write(timeout)
        self._measure_profile(path)
        return path

    def _measure_profile(self, path: Path) -> None:
        """Measure the profile of this machine, beside the table, unless some process has."""
        from . import machine_profile

        if machine_profile.measure_once(path):
            with self._lock.held():
                self.generation += 1

    def _write(self, timeout: float) -> Path:
        path = self.path
        if self.read_only:
            raise PermissionError(f"cost table {path} is read-only here ({READ_ONLY} or cost_table.read_only)")
        if not path.is_absolute():
            raise OSError(f"cost table {path}: LAYOUTKIT_CACHE_DIR must be an absolute path")
        path.parent.mkdir(parents=True, exist_ok=True)
        own_key = process.forks(), path
        before: Mapping[str, dict[str, Cost]] | None = None
        unsaved = Unsaved()
        costs: Costs = {}

        def content() -> bytes:
            nonlocal before, unsaved, costs
            merged = self._read_whole(path)
            with self._lock.held():
                before, unsaved = self._saved.get(path), self._unsaved.get(own_key, unsaved)
                unsaved.apply(merged)
                # From here on a look-up sees what is being written; changes are dropped last, so that none is lost.
                self._saved[path] = costs = merged
                self._unsaved.pop(own_key, None)
                self.generation += 1
            return content_of(path, costs, machine.identity())

        try:
            files.rewrite(path, content, timeout)
        except BaseException:
            with self._lock.held():
                if self._saved.get(path) is costs:
                    if self._unsaved.get(own_key) is not unsaved:
                        self._own_changes(path).restore(unsaved)
                    del self._saved[path]
                    if before is not None:
                        self._saved[path] = before
            raise
        return path

    def save_at_exit(self) -> None:
        """Save when the process ends, if anything is new then and the table is not read-only; then measure the profile
        of this machine if there is none."""
        with self._lock.held():
            if not self._saves_at_exit:
                self._saves_at_exit = True
                atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        path = self.path
        unsaved = self._own_changes(path)
        if unsaved and not self.read_only:
            try:
                self._write(EXIT_SECONDS)
            except (OSError, KeyboardInterrupt) as error:
                what = f"{unsaved.costs} costs of {len(unsaved.problems)} problems"
                why = str(error) or "interrupted"
                warnings.warn(f"cost table {path}: {what} are not saved: {why}", RuntimeWarning, stacklevel=2)
            else:
                with contextlib.suppress(KeyboardInterrupt):
                    self._measure_profile(path)

    def _read(self, path: Path) -> Mapping[str, dict[str, Cost]]:
        try:
            if not path.is_absolute():
                raise ValueError("LAYOUTKIT_CACHE_DIR must be an absolute path")
            file = read(path)
            file.check(machine.identity())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            self._warn_once(path, f" is not used: {shortened(str(error), 300)}")
            return {}
        self._warn_of_dropped(path, file)
        return file

    def _read_whole(self, path: Path) -> Costs:
        file = self._read(path)
        if not isinstance(file, CostFile):
            return dict(file)
        costs = file.all_costs()
        self._warn_of_dropped(path, file)
        return costs

    def _warn_once(self, path: Path, text: str) -> None:
        if path not in self._warned:
            self._warned.add(path)
            warn(f"cost table {path}{text}")

    def _warn_of_dropped(self, path: Path, file: CostFile) -> None:
        if file.dropped:
            self._warn_once(path, f": {file.describe_dropped()}")

    def _read_other(self, path: str | os.PathLike) -> Costs:
        try:
            file = read(path)
            file.check(machine.identity())
        except ValueError as error:
            raise ValueError(f"cost table {os.fspath(path)}: {error}") from None
        costs = file.all_costs()
        self._warn_of_dropped(Path(path), file)
        return costs

    def _loaded(self) -> Mapping[str, dict[str, Cost]]:
        path = self.path
        if path not in self._saved:
            self.load()
        return self._saved[path]

    def _measured(self, problem: str) -> dict[str, Cost]:
        path, saved = self.path, self._loaded()
        costs = costs_with(problem, lambda key: dict(saved.get(key, {})), self._all_changes(path))
        if isinstance(saved, CostFile) and problem in saved.dropped:
            self._warn_of_dropped(path, saved)
        return costs

    def fingerprint(self) -> str | None:
        """A text that stands for all costs that are known; None where some of them are in no file of this machine."""
        with self._lock.held():
            path, saved = self.path, self._loaded()
            if any(self._all_changes(path)) or self._doubtful.get(path):
                return None
            return saved.head if isinstance(saved, CostFile) else None if saved else "none"

    def costs(self, problem: str) -> dict[str, Cost]:
        """Measured candidates of a problem; empty where none was.

        Parameters
        ----------
        problem : str
            Its key, as `problems` has it.
        """
        with self._lock.held():
            return self._measured(problem)

    def doubtful(self, problem: str) -> dict[str, Cost]:
        """Candidates of a problem that this process has only disturbed timings of, which are upper bounds.

        Parameters
        ----------
        problem : str
            Its key.
        """
        with self._lock.held():
            doubtful = self._doubtful.get(self.path, {}).get(problem, {})
            measured = self._measured(problem) if doubtful else ()
            return {name: cost for name, cost in doubtful.items() if name not in measured}

    def problems(self) -> list[str]:
        """The problems that have measured candidates, doubtful ones aside."""
        with self._lock.held():
            changes, keys = self._all_changes(self.path), {*self._loaded()}
            for unsaved in changes:
                keys -= unsaved.forgotten
            return sorted(keys.union(*(c.new for c in changes), *(c.merged for c in changes)))

    def record(self, problem: str, candidate: str, cost: Cost, doubtful: bool = False) -> None:
        """Remember a measurement; `save` makes it last.

        Parameters
        ----------
        problem, candidate : str
            Their names.
        cost : Cost
            What was measured.
        doubtful : bool
            Whether all timings were disturbed: then it bounds what is estimated in this process, decides nothing, and
            is never saved.
        """
        path = self.path
        with self._lock.held():
            if doubtful:
                merge(self._doubtful.setdefault(path, {}), {problem: {candidate: cost}})
            else:
                self._own_changes(path).record(problem, candidate, cost)
            self.generation += 1

    def learn(self, problem: str, candidate: str, cost: Cost) -> None:
        """Remember what calls showed; `save` makes it last. Other decisions stay as they are.

        Parameters
        ----------
        problem, candidate : str
            Their names.
        cost : Cost
            What the calls took.
        """
        with self._lock.held():
            self._own_changes(self.path).record(problem, candidate, cost)
            self.learnt.add((problem, candidate))


cost_table = CostTable()
