"""Answers the requests of `compare` for rows that are written in Python.

    check ROW   compares the first result of the row with what ExBurn wrote to FOLDER/ROW and answers how far they
                are apart: the largest difference in a tensor over the largest of its elements
    time ROW    answers the median time of a call in microseconds

each with a line, or with a dash where the library has no such row or cannot compile it within BENCH_COMPILE_SECONDS (120).
"""

import os
import signal
import sys
import traceback

import numpy as np

from measure import FOLDER, median

COMPILE_SECONDS = int(os.environ.get("BENCH_COMPILE_SECONDS", "120"))


def distance(results, row):
    results = [np.asarray(result.detach() if hasattr(result, "detach") else result, "float64") for result in results]
    theirs = np.fromfile(os.path.join(FOLDER, row), "float32")
    sizes = [result.size for result in results]
    if theirs.size != sum(sizes):
        return f"{theirs.size} elements rather than {sum(sizes)}"
    parts = np.split(theirs, np.cumsum(sizes)[:-1])
    far = [np.abs(part - ours.ravel()).max() / np.abs(ours).max() for part, ours in zip(parts, results)]
    return f"{np.max(far):.1e}"


def prepare(make):
    """The first result and what is timed, or None where that fails or takes too long."""

    def give_up(*_):
        raise TimeoutError(f"not compiled after {COMPILE_SECONDS} seconds")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(COMPILE_SECONDS)
    try:
        return make()
    except TimeoutError as error:
        print(error, file=sys.stderr)
    except Exception:
        traceback.print_exc()
    finally:
        signal.alarm(0)


def serve(rows):
    """`rows` has a function for each row, which answers its first result and what is timed."""
    name, prepared = None, None
    for line in sys.stdin:
        request, row = line.split()
        if row != name:
            prepared, name = None, row
            prepared = prepare(rows[row]) if row in rows else None
        if prepared is None:
            print("-", flush=True)
        elif request == "check":
            print(distance(prepared[0], row), flush=True)
        else:
            print(f"{median(prepared[1]):.1f}", flush=True)

