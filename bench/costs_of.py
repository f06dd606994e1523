"""Estimates by another table than the shipped one of this instruction set, as on a machine of another kind."""

from __future__ import annotations

import argparse

from layoutkit.choosing import machine_profile, packaged
from layoutkit.choosing.table import cost_table


def arguments(p: argparse.ArgumentParser) -> None:
    """Add the options."""
    p.add_argument(
        "--table", metavar="NAME", help="estimate by these shipped costs, such as avx512-amd-26-2, or by 'none'"
    )
    p.add_argument("--profile", action="store_true", help="measure the machine profile first, as layoutkit.bench does")


def take(args: argparse.Namespace) -> None:
    """Do as the options say, for this process."""
    if args.table:
        path = None if args.table == "none" else packaged.DATA / f"costs-{args.table}.txt"
        packaged.file = lambda isa: path
    if args.profile:
        machine_profile.save(machine_profile.path(cost_table.path), machine_profile.measure())
