"""The configuration in one look: versions, instruction sets, threads, caches, cost table."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

from ._core.runtime import registry, team
from .choosing import machine
from .choosing.cache import plans
from .choosing.table import cost_table
from .choosing.threads import get_num_threads
from .choosing.tuning import mode
from .convolutions.order import reproducible
from .version import __version__


def config() -> dict[str, Any]:
    """The configuration as plain data."""
    from threadpoolctl import threadpool_info

    return {
        "layoutkit": __version__,
        "build": machine.build(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu": machine.cpu_model(),
        "isa": registry.isa(),
        "isas": registry.isas(),
        "tiles": registry.tiles(),
        "threads": get_num_threads(),
        "threads_refused": team.refused(),
        "cores": machine.identity()["cores"],
        "caches": {f"L{level}": size for level, size in sorted(machine.caches().items())},
        "pools": [f"{p['user_api']}/{p['prefix']} {p['num_threads']}" for p in threadpool_info()],
        "plans": {"kept": len(plans), "most": plans.most, "made": plans.made, "dropped": plans.dropped},
        "tuning": mode(),
        "reproducible": reproducible(),
        "cost_table": str(cost_table.path),
        "problems": len(cost_table.problems()),
    }


def show_config() -> None:
    """Print the configuration.

    Examples
    --------
    >>> import layoutkit as lk
    >>> lk.show_config()                      # doctest: +ELLIPSIS
    layoutkit    ...
    """
    c = config()
    refused = f", the system refused to start {c['threads_refused']}" if c["threads_refused"] else ""
    isas = [f"[{isa}]" if isa == c["isa"] else isa for isa in c["isas"]]
    rows = {
        "layoutkit": f"{c['layoutkit']}, build {c['build']}",
        "python": f"{c['python']}, numpy {c['numpy']}, {c['platform']}",
        "cpu": f"{c['cpu']}, {c['cores']} cores",
        "isa": f"{' '.join(isas)}   (LAYOUTKIT_ISA)",
        "tiles": c["tiles"],
        "threads": f"{c['threads']}{refused}   (LAYOUTKIT_NUM_THREADS, OMP_NUM_THREADS)",
        "caches": ", ".join(f"{level} {size >> 10} KB" for level, size in c["caches"].items()),
        "pools": ", ".join(c["pools"]) or "none",
        "plans": f"{c['plans']['kept']} of at most {c['plans']['most']} kept, {c['plans']['made']} made",
        "tuning": f"{c['tuning']}   (LAYOUTKIT_TUNING)",
        "reproducible": f"{'yes' if c['reproducible'] else 'no'}   (LAYOUTKIT_REPRODUCIBLE)",
        "cost table": f"{c['cost_table']}, {c['problems']} problems   (LAYOUTKIT_CACHE_DIR)",
    }
    for name, value in rows.items():
        print(f"{name:<12} {value}")
