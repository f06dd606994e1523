"""Operators compute on torch's threads, as many as torch has."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", reason="the extra torch")
import layoutkit.torch  # noqa: E402
from layoutkit._core.runtime import team  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc; elsewhere torch lends none")
SEVERAL = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor")
BEGIN = """
import os, numpy as np, torch, layoutkit.torch
from torch.nn import functional
torch.set_num_threads(2)
x, w = torch.randn(4, 64, 32, 32), torch.randn(64, 64, 3, 3)
y = functional.conv2d(x, w)
norm, pool = layoutkit.torch.convert(torch.nn.BatchNorm2d(64)), layoutkit.torch.convert(torch.nn.MaxPool2d(2, 2))
def threads():
    print(len(os.listdir("/proc/self/task")))
def all_kinds():
    mine = x.clone().requires_grad_()
    pool(norm(layoutkit.torch.conv(mine, w))).sum().backward()
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", BEGIN + program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


@SEVERAL
def test_no_threads_are_started_beside_those_of_torch():
    before, after = run("threads(); all_kinds(); threads()").split()
    assert before == after


@SEVERAL
def test_a_call_outside_torch_starts_its_own():
    before, after = run("threads(); layoutkit.conv2d(x.numpy(), w.numpy(), threads=2); threads()").split()
    assert int(after) == int(before) + 1


def test_forked_processes_compute_on_one():
    program = """
all_kinds()
if not (child := os.fork()):
    got = layoutkit.torch.conv(x, w).numpy()  # of torch's own operators a child can run none on several threads
    os._exit(0 if np.allclose(got, y.numpy(), atol=1e-3) else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run(program) == "0\n"


def test_threads_of_python_call_at_once():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        x, w = torch.randn(4, 32, 24, 24), torch.randn(48, 32, 3, 3)
        want = torch.nn.functional.conv2d(x, w)
        with ThreadPoolExecutor(4) as pool:
            for y in pool.map(lambda _: layoutkit.torch.conv(x, w), range(16)):
                torch.testing.assert_close(y, want, atol=1e-3, rtol=1e-4)
    finally:
        torch.set_num_threads(before)


def test_a_kernel_that_raises_gives_the_threads_back():
    def raises():
        raise KeyError

    with pytest.raises(KeyError):
        layoutkit.torch.threads.on_torch_threads(raises)()
    assert team.borrowing() == 0
