"""``python -m layoutkit table``: bring cost tables from machine to machine, and see what they say."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ..choosing.table import cost_table
from . import table_files
from .folding import print_folded
from .table_summary import LABEL, Table, both, facts, one

NOTHING = "nothing was measured on this machine yet: python -m layoutkit bench does it"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m layoutkit table", description=__doc__.partition(": ")[2].capitalize())
    commands = p.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text)

    show = command("show", "what a table says of its machine, or two side by side; without FILE that of this machine")
    show.add_argument("files", nargs="*", type=Path, metavar="FILE", help="one or two")
    show.add_argument("--json", action="store_true", help="as JSON")
    export = command("export", "write the table of this machine, and its profile beside it")
    export.add_argument("file", type=Path, metavar="FILE")
    into = command("import", "add tables to the cache folder (LAYOUTKIT_CACHE_DIR), each under its own machine's name: "
                             "machines like it find it there")  # fmt: skip
    into.add_argument("files", nargs="+", type=Path, metavar="FILE")
    merge = command("merge", "one table of several of the same machine")
    merge.add_argument("out", type=Path, metavar="OUT")
    merge.add_argument("files", nargs="+", type=Path, metavar="FILE")
    return p


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    p = parser()
    args = p.parse_args(argv)
    try:
        if args.command == "show":
            _show(args.files, args.json)
        elif args.command == "export":
            if not cost_table.problems():
                raise ValueError(NOTHING)
            path = table_files.export(args.file)
            print(f"{path}: {len(cost_table.problems())} problems; python -m layoutkit table import {path}")
        elif args.command == "import":
            for file in args.files:
                _import(file)
        else:
            count = table_files.merge(args.out, args.files)
            print(f"{args.out}: {count} problems of {len(args.files)} tables")
    except (OSError, ValueError) as error:
        p.error(str(error))
    return 0


def _import(file: Path) -> None:
    path = table_files.install(file)
    table = Table.read(path)
    m, why = table.file.machine, table_files.why_not_here(table.file)
    lines = [f"{path}: {len(table.costs)} problems of {m.get('cpu')}, {m.get('cores')} cores, {m.get('isa')}"]
    lines.append(f"they do not apply on this machine: {why}" if why else "they apply on this machine")
    print_folded(lines, sys.stdout)


def _show(paths: Sequence[Path], as_json: bool) -> None:
    if len(paths) > 2:
        raise ValueError(f"one or two tables are shown, got {len(paths)}")
    if not paths and not cost_table.path.is_file():
        raise ValueError(NOTHING)
    tables = [Table.read(path) for path in paths or [cost_table.path]]
    if as_json:
        shown = [
            {"file": str(t.path), "machine": t.file.machine, "profile": t.profile and t.profile.content,
             "facts": [list(fact) for fact in facts(t)]} for t in tables
        ]  # fmt: skip
        print(json.dumps(shown, indent=1))
    else:
        print_folded(both(*tables) if len(tables) == 2 else one(tables[0]), sys.stdout, LABEL)
