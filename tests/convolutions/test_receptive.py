"""Receptive fields, by brute force over every pixel."""

from hypothesis import given
from hypothesis import strategies as st

from layoutkit.convolutions.receptive import ReceptiveField, of_window

small, pixel = st.integers(1, 5), st.integers(-9, 9)


@given(small, small, pixel, st.integers(0, 9), pixel, st.integers(1, 9))
def test_inputs_are_what_outputs_read_and_outputs_what_reads_nothing_else(times, over, first, width, begin, count):
    field = ReceptiveField(times, over, first, first + width)

    def reads(i):
        return (times * i + first) // over, (times * i + first + width) // over

    end = begin + count
    assert field.inputs(begin, end) == (reads(begin)[0], reads(end - 1)[1] + 1)
    low, high = field.outputs(begin, end)
    inside = [i for i in range(-200, 200) if begin <= reads(i)[0] and reads(i)[1] < end]
    assert inside == list(range(low, high))


@given(small, small, small, pixel, pixel)
def test_a_window_reads_its_taps(stride, kernel, dilation, before, output):
    taps = [output * stride - before + dilation * k for k in range(kernel)]
    field = of_window(stride, dilation * (kernel - 1) + 1, before)
    assert field.inputs(output, output + 1) == (taps[0], taps[-1] + 1)
