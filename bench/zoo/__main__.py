"""``python -m zoo FOLDER [NAME ..]``: see the package."""

import argparse
from pathlib import Path

from . import ZOO
from .export import exported

p = argparse.ArgumentParser(prog="python -m zoo", description="Write networks of the zoo as ONNX files.")
p.add_argument("folder", type=Path)
p.add_argument("names", nargs="*", help=f"of {', '.join(sorted(ZOO))}; default: all")
p.add_argument("--exporter", choices=("script", "dynamo"), default="script", help="torch's, default %(default)s")
args = p.parse_args()
for name in args.names or ZOO:
    print(exported(name, args.folder, args.exporter), flush=True)
