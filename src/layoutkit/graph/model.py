"""A graph that runs: `Model`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .._core.runtime.guard import Lock
from .._core.runtime.pool import trim
from ..choosing import progress
from ..choosing.decision_files import Rankings
from ..choosing.threads import check_threads
from ..formats.nearest import none_of
from ..memory.collecting import collection_paused
from .ir import Graph
from .layout import decisions
from .layout.costs import Costs
from .layout.plan import LayoutPlan, simplified, with_decided, with_layouts
from .layout.rules import RULES
from .operators import DataDependent, control
from .operators.layouts import NAMES
from .report import Profile, Timed, counted, family_of, fused, told_of
from .runtime.execute import Program
from .runtime.staged import Staged, cut, is_small

DTYPES = "float32", "bfloat16", "float16"
MAX_PROGRAMS = 8  # kept for different shapes of the inputs
MAX_VALUES = 1024  # of an input on which shapes depend: a program for each such input


class Model:
    """A graph of operators, run in the layouts that cost the least.

    Parameters
    ----------
    graph : Graph
    threads : int, optional
        At most this many.
    accuracy : {"standard", "reproducible", "strict", "fast"}
        Of its convolutions, see `conv2d`.
    dtype : {"float32", "bfloat16", "float16"}
        The type that convolutions and products multiply, and that tensors between them are stored in; sums and all
        other operators are in float32. Where the model is quantised, integers are multiplied instead.
    layouts : {None, "plain", "channels last", "blocked"}
        Run every operator that can in this layout, instead of choosing by cost.
    """

    def __init__(
        self, graph: Graph, *, threads: int | None = None, accuracy: str = "standard", dtype: str = "float32",
        layouts: str | None = None,
    ) -> None:  # fmt: skip
        check_threads(threads)
        if layouts is not None and layouts not in NAMES:
            raise ValueError(none_of("Model: layouts", layouts, NAMES, {"NHWC": "channels last", "NCHW": "plain"}))
        self.graph, self._threads, self._accuracy, self._layouts = graph, threads, accuracy, layouts
        if dtype not in DTYPES:
            raise ValueError(none_of("Model: dtype", dtype, DTYPES))
        self._dtype = dtype
        self._programs: dict[Any, Program | Staged] = {}
        self._recent: Program | None = None  # what ran last, unless it depends on values of inputs
        self.notes: tuple[str, ...] = ()  # lines that `explain` begins with
        self._by_value: list[str] = []  # inputs on whose values shapes depend
        self._lock = Lock()

    def __repr__(self) -> str:
        inputs = (f"{name}: {of.dtype} {tuple(of.shape)}" for name, of in self.graph.inputs.items())
        return f"Model({', '.join(inputs)}; {len(self.graph.nodes)} operators)"

    def __reduce__(self) -> tuple:  # copies and pickles are planned again where they are used
        return partial(type(self), self.graph, **self.options), ()

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of `Model` that it was created with."""
        return dict(threads=self._threads, accuracy=self._accuracy, dtype=self._dtype, layouts=self._layouts)

    @property
    def inputs(self) -> dict[str, tuple[int | str, ...]]:
        """The shapes of its inputs; symbolic names stand for any extent."""
        return {name: of.shape for name, of in self.graph.inputs.items()}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs."""
        return self.graph.outputs

    def run(self, inputs: Mapping[str, Any] | Any) -> dict[str, np.ndarray]:
        """The outputs by name, for inputs by name (an array alone where there is one input).

        Parameters
        ----------
        inputs : dict of str to array_like, or array_like
            The arrays by name.

        Raises
        ------
        TypeError, ValueError
            Inputs that the model does not have, or of another type or rank.
        OSError
            Inputs of a new shape, and the file that the model was loaded from has been written over since.
        """
        recent = self._recent
        outputs = recent.run_again(inputs) if recent is not None else None
        if outputs is not None:
            return outputs
        program, arrays = self.planned(inputs)
        self._recent = program if isinstance(program, Program) and not self._by_value else None
        return program.run(arrays)

    def planned(self, inputs: Mapping[str, Any] | Any) -> tuple[Program | Staged, dict[str, np.ndarray]]:
        """What runs inputs of such shapes, and the inputs as it takes them.

        Parameters
        ----------
        inputs : dict of str to array_like, or array_like
            The arrays by name.
        """
        arrays = self._taken(inputs)
        with self._lock.held():
            return self._program(arrays), arrays

    def costed(self, arrays: Mapping[str, np.ndarray]) -> Program | Staged:
        """What runs such inputs, with what its layouts cost: where another process chose them, they are chosen again.

        Parameters
        ----------
        arrays : dict of str to ndarray
            The inputs by name.
        """
        with self._lock.held():
            program = self._program(arrays)
            if isinstance(program, Program) and program.plan.assigned is None:
                program = self._programs[self._key(arrays)] = self._made(arrays, anew=True)
            return program

    def explain(self, inputs: Mapping[str, Sequence[int] | np.ndarray] | np.ndarray | None = None) -> str:
        """How it runs on inputs of these shapes: the layouts, their cost, the cost of one layout throughout, what numpy
        runs, and what was fused; then every step.

        Parameters
        ----------
        inputs : dict of str to sequence of int or ndarray, or ndarray, optional
            Shapes by name, or arrays that have them, the array itself where there is one input: needed where the model
            leaves extents open.
        """
        arrays = {}
        if inputs is not None and not isinstance(inputs, Mapping):
            if len(self.graph.inputs) != 1:
                raise TypeError(f"explain: expected inputs by name: {', '.join(self.graph.inputs)}")
            inputs = {name: inputs for name in self.graph.inputs}
        for (name, of), shape in zip(self.graph.inputs.items(), self._shapes(inputs)):
            arrays[name] = np.broadcast_to(np.zeros((), of.dtype), shape)
        program = self.costed(arrays)
        if isinstance(program, Staged):
            return "\n".join([*self.notes, program.explain(arrays)])
        plan = program.plan
        assert plan.assigned is not None and plan.problem is not None
        operators = f"{len(self.graph.nodes)} operators, {len(plan.graph.nodes)} after folding"
        lines = [
            *self.notes,
            f"{operators}, {len(program.steps)} steps, {program.arena_bytes / 1e6:.3g} MB of intermediate tensors",
        ]
        seconds, bound = plan.assigned.seconds, plan.assigned.bound
        least = "the least of all" if bound == seconds else f"none takes less than {bound * 1e3:.3g} ms"
        lines.append(f"layouts: {seconds * 1e3:.3g} ms predicted, {least}")
        lines += [f"  all {name}: {seconds * 1e3:.3g} ms" for name, seconds in plan.problem.uniform().items()]
        for name, rule in RULES.items():
            lines.append(f"  by {name}: {plan.problem.seconds(rule(plan.graph, plan.known)) * 1e3:.3g} ms")
        by_numpy = counted(step.op for step in program.steps if step.call is not None)
        lines += [f"run by numpy: {', '.join(by_numpy)}"] if by_numpy else []
        lines += [*told_of(fused(self.graph, plan.graph, plan.known)), ""]
        for step in program.steps:
            lines.append(f"{step.op:<18}{step.name:<40} {step.written()}")
        return "\n".join(lines)

    def profile(self, inputs: Mapping[str, Any] | Any, rounds: int = 5) -> Profile:
        """Operator, name and seconds of each step, the least of some rounds, as a list; printed, where time goes:
        families of operators, their shares of the machine's limits, the slowest steps, what was fused.

        Parameters
        ----------
        inputs : dict of str to array_like, or array_like
            The arrays by name.
        rounds : int, optional
        """
        program, arrays = self.planned(inputs)
        best: list[float] = []
        for _ in range(rounds):
            times: list[float] = []
            program.run(arrays, times)
            best = times if not best else [min(a, b) for a, b in zip(best, times)]
        found: dict[str, int] = {}
        if isinstance(program, Program):
            steps = list(program.timed(best))
            found = fused(self.graph, program.plan.graph, program.known)
        else:
            steps = [
                Timed(step.op, step.name, seconds, family_of(step.op, step.call is None), 0, 0, "")
                for step, seconds in zip(program.steps, best)
            ]
        return Profile(steps, found, check_threads(self._threads))

    def _shapes(self, asked: Mapping[str, Sequence[int] | np.ndarray] | None) -> list[tuple[int, ...]]:
        if unknown := set(asked or ()) - set(self.graph.inputs):
            raise ValueError(f"explain: no input {sorted(unknown)}; there are {', '.join(self.graph.inputs)}")
        shapes = []
        for name, of in self.graph.inputs.items():
            given = (asked or {}).get(name, of.shape)
            if isinstance(given, np.ndarray) and given.ndim == len(of.shape):  # no array of extents
                given = given.shape
            if not isinstance(given, (Sequence, np.ndarray)) or len(given) != len(of.shape):
                got = given.shape if isinstance(given, np.ndarray) else given
                expected = f"an array of {len(of.shape)} axes or its shape"
                raise ValueError(f"explain: input {name!r}: expected {expected}, got {got}")
            shape = tuple(given)
            if any(not isinstance(n, (int, np.integer)) for n in shape):
                raise ValueError(f"explain: input {name!r} has shape {shape}: say its extents, {{{name!r}: (1, ..)}}")
            shapes.append(tuple(int(n) for n in shape))
        return shapes

    def _taken(self, inputs: Mapping[str, Any] | Any) -> dict[str, np.ndarray]:
        names = list(self.graph.inputs)
        if not isinstance(inputs, Mapping):
            if len(names) != 1:
                raise TypeError(f"run: expected inputs by name: {', '.join(names)}")
            inputs = {names[0]: inputs}
        wrong = [f"{name!r} is no input" for name in inputs if name not in self.graph.inputs]
        wrong += [f"{name!r} is missing" for name in names if name not in inputs]
        if wrong:
            raise ValueError(f"run: {'; '.join(wrong)}; the inputs are {', '.join(names)}")
        arrays = {}
        for name, of in self.graph.inputs.items():
            array = np.asarray(inputs[name])
            if array.dtype != of.dtype:
                raise TypeError(f"run: input {name!r}: expected dtype {of.dtype}, got {array.dtype}")
            if array.ndim != len(of.shape):
                axes = f"{len(of.shape)} axes {tuple(of.shape)}"
                raise ValueError(f"run: input {name!r}: expected {axes}, got {array.shape}")
            arrays[name] = np.asarray(array, order="C")  # ascontiguousarray would make a 0-d array 1-d
        return arrays

    def _key(self, arrays: Mapping[str, np.ndarray]) -> tuple:
        return tuple((a.shape, a.tobytes() if name in self._by_value else None) for name, a in arrays.items())

    def _program(self, arrays: Mapping[str, np.ndarray]) -> Program | Staged:
        key = self._key(arrays)
        program = self._programs.get(key)
        if program is not None:
            return program
        try:
            program = self._made(arrays)
        except DataDependent as error:
            names = [name for name in _sources(self.graph, error.tensor) if name not in self._by_value]
            if error.node is None and names and is_small(arrays, names, MAX_VALUES):
                self._by_value += names
                return self._program(arrays)
            program = self._staged(error)
        if len(self._programs) >= MAX_PROGRAMS:
            self._programs.clear()
        self._programs[key] = program
        trim()  # what planning has held: filters on their way to packed ones
        return program

    def _made(self, arrays: Mapping[str, np.ndarray], anew: bool = False) -> Program:
        """A program for inputs of such shapes, as another process decided about it or `anew`."""
        costs = Costs(self._threads, self._accuracy, self._dtype)
        with progress.shown("planning a network"), collection_paused():
            plan, rankings, file = self._laid_out(arrays, costs, anew)
            with rankings.used():
                program = Program(plan, costs)  # it drops the values of constants, which nothing else may hold
        made = decisions.Decisions(plan.decided, rankings)
        if plan.assigned is None and not decisions.fits(made):
            return self._made(arrays, anew=True)
        if file is not None:
            decisions.write(file, made)
        return program

    def _laid_out(
        self, arrays: Mapping[str, np.ndarray], costs: Costs, anew: bool
    ) -> tuple[LayoutPlan, Rankings, Path | None]:
        """The layouts for inputs of such shapes, what is known about their problems, and the file to keep both in."""
        shapes = {name: array.shape for name, array in arrays.items()}
        graph, known = simplified(self.graph.with_constants({name: arrays[name] for name in self._by_value}), shapes)
        file = decisions.file_of(graph, known, costs, self._layouts)
        found = None if file is None or anew else decisions.read(file)
        if found is None:
            return with_layouts(graph, known, costs, self._layouts), Rankings(), file
        try:
            return with_decided(graph, known, costs, found.decided), found.rankings, file
        except ValueError:  # of another network
            del graph, known
            return self._laid_out(arrays, costs, anew=True)

    def _staged(self, error: DataDependent) -> Staged:
        """The graph cut where more must be known."""
        graph = error.graph
        if graph is None or (error.node is None and (error.tensor in graph.inputs or error.tensor in self._by_value)):
            raise error

        def modelled(part: Graph, by_value: list[str]) -> Model:
            model = Model(part, **self.options)
            model._by_value += by_value
            return model

        return Staged(
            cut(graph, error.tensor, error.node), modelled, {"accuracy": self._accuracy, "threads": self._threads}
        )


control.hooks.model = Model


def _sources(graph: Graph, tensor: str) -> list[str]:
    """The inputs of a graph that a tensor depends on."""
    makers, todo, seen = graph.makers(), [tensor], {tensor}
    while todo:
        maker = makers.get(todo.pop())
        new = {name for name in (maker.present_inputs() if maker else ()) if name not in seen}
        todo += new
        seen |= new
    return [name for name in graph.inputs if name in seen]
