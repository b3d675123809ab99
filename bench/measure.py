"""Operands and times, for the sides of `compare` that are written in Python."""

import os
import statistics
import sys
import time

import numpy as np

FOLDER = sys.argv[2]
SECONDS = float(os.environ.get("BENCH_SECONDS", "0.4"))
CALLS = int(os.environ.get("BENCH_CALLS", "5"))


def cores():
    """How many cores this process may use; fewer than there are under `taskset`."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def operand(name, shape, dtype="float32", start=0):
    """The elements of the operand `name` from `start` on as an array of `shape`."""
    dtype = np.dtype(dtype)
    path = os.path.join(FOLDER, name)
    return np.fromfile(path, dtype, count=int(np.prod(shape)), offset=start * dtype.itemsize).reshape(shape)


def weights(shapes, first=0, name="b", scale=0.05):
    """Several operands; the number of each says where in the file it starts, so that no two are equal."""
    return [operand(name, shape, start=1000 * n) * np.float32(scale) for n, shape in enumerate(shapes, first)]


def median(run):
    """The median time of a call of `run` in microseconds, over SECONDS and at least CALLS calls."""
    run(), run()
    times, end = [], time.perf_counter() + SECONDS
    while len(times) < CALLS or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6
