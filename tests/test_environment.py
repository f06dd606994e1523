"""Environment variables: what is wrong is an ImportError that quotes what was given, letter by letter."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.memory import pool

# Each text in a child of one process, which has imported what takes long.
PROGRAM = """
import os, sys, numpy
for name, text in zip(sys.argv[1::2], sys.argv[2::2]):
    if not os.fork():
        os.environ[name] = text
        try:
            import layoutkit
            print(f"{name}={text!r}: taken", flush=True)
        except ImportError as error:
            print(error, flush=True)
        os._exit(0)
    os.wait()
"""
NAMES = ["ISA", "NUM_THREADS", "REPRODUCIBLE", "TUNING", "VERBOSE", "MEMORY"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that fork")
def test_what_is_wrong_is_quoted_as_it_was_given():
    cases = [(f"LAYOUTKIT_{name}", text) for name in NAMES for text in (" aBc ", "9" * 5000)]
    flat = [part for case in cases for part in case]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *flat], capture_output=True, text=True)
    told = done.stdout.splitlines()
    assert len(told) == len(cases), done.stderr
    for line, (name, text) in zip(told, cases):
        assert line.startswith(f"{name}={text!r}: ") and not line.endswith(": taken"), line


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
    | st.from_regex(r"\s*\d+[kmgKMG]?", fullmatch=True)
)
def test_every_text_is_a_limit_of_memory_or_quoted(text):
    before = os.environ.get(pool.MEMORY)
    try:
        os.environ[pool.MEMORY] = text
        assert pool._default_limit() >= 0
    except ImportError as error:
        assert str(error) == f"{pool.MEMORY}={text!r}: expected bytes, such as 268435456 or 256M"
    finally:
        os.environ.pop(pool.MEMORY)
        if before is not None:
            os.environ[pool.MEMORY] = before
