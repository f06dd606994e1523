"""``python -m layoutkit quantize MODEL``: write an ONNX model of float32 as one of int8."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from .calibration import METHODS
from .quantizing import TOLERANCE, quantize
from .samples import samples_in


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    p = argparse.ArgumentParser(prog="python -m layoutkit quantize", description=__doc__.split(": ", 1)[1])
    p.add_argument("model", type=Path, help="an ONNX file")
    p.add_argument("--samples", type=Path, required=True, metavar="FILE.npz",
                   help="inputs by name, whose first axis counts samples; or FILE.npy of the only input")  # fmt: skip
    p.add_argument("--output", type=Path, help="the file to write, default: MODEL.int8.onnx")
    p.add_argument("--method", choices=METHODS, default="min-max", help="of the ranges, default %(default)s")
    p.add_argument("--percentile", type=float, default=99.99, help="of that method, default %(default)s")
    p.add_argument("--tolerance", type=float, default=TOLERANCE,
                   help="of the model's error, relative to its largest output, default %(default)s")  # fmt: skip
    p.add_argument("--by-time", action="store_true", help="layers that are not faster in int8 stay in float32, too")
    p.add_argument("--threads", type=int, help="at most; default: all that layoutkit may use")
    p.add_argument("--html", type=Path, metavar="PAGE.html", help="write the layers' errors, times, types as a page")
    args = p.parse_args(argv)
    output = args.output or args.model.with_suffix(".int8.onnx")
    try:
        found = quantize(
            args.model, samples_in(args.samples), method=args.method, percentile=args.percentile,
            tolerance=args.tolerance, by_time=args.by_time, threads=args.threads,
        )  # fmt: skip
        found.save(output)
        if args.html:
            args.html.write_text(found.page(args.model.name), encoding="utf-8")
    except (OSError, ValueError, TypeError, RuntimeError, ImportError) as error:
        p.error(str(error))
    print(f"{found}\n{output}")
    return 0
