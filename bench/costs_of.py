"""Estimates by another table than the shipped one of this instruction set, as on a machine of another kind."""

from __future__ import annotations

import argparse

from layoutkit.choosing import machine_profile, model, shipped
from layoutkit.choosing.table import cost_table


def arguments(p: argparse.ArgumentParser) -> None:
    """Add the options."""
    p.add_argument("--table", metavar="ISA", help="estimate by the shipped costs of this instruction set, or by 'none'")
    p.add_argument("--profile", action="store_true", help="measure the machine profile first, as layoutkit.bench does")


def take(args: argparse.Namespace) -> None:
    """Do as the options say, for this process."""
    if args.table:
        table = shipped.EMPTY if args.table == "none" else shipped.read(model.packaged_file(args.table))
        model.packaged = lambda isa: table
    if args.profile:
        machine_profile.save(machine_profile.path(cost_table.path), machine_profile.measure())
