"""What a word that is not known may have been meant to be."""

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.formats.nearest import near, none_of


@pytest.mark.parametrize(
    ("word", "meant"),
    [("relu", "relu"), ("Relu", "relu"), (" RELU6 ", "relu6"), ("clampp", "clip"), ("CLAMP", "clip"), ("no", ""),
     ("x" * 10000, ""), ("", ""), (3, ""), (None, ""), (["relu"], "")],
)  # fmt: skip
def test_near(word, meant):
    assert near(word, ("relu", "relu6", "clip"), {"clamp": "clip"}) == meant


def test_errors_say_what_there_is_and_what_is_near():
    assert none_of("f: mode", "Fast", ("slow", "fast")) == "f: mode 'Fast' is none of slow, fast; did you mean 'fast'?"
    assert none_of("f: mode", 7, ("slow", "fast")) == "f: mode 7 is none of slow, fast"


@pytest.mark.parametrize("code", [4, np.int64(4), 1342, -1])
def test_an_integer_that_is_no_layout(code):
    with pytest.raises(ValueError, match=rf"layout {code}: a layout is named by its axes, such as 'NCHW'; an integer"):
        lk.reorder(np.ones((1, 3, 4, 4)), code, "NHWC")
