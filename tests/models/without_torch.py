"""Runs a program file in a fresh process in which importing torch raises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

# Calls: arrays named "CALL.ARGUMENT". "@N" of the call before stands in for an argument: recurrent state.
CHILD = """
import sys
sys.modules["torch"] = None
import numpy as np, mlxify
program = mlxify.load(sys.argv[1])
given, carried = np.load(sys.argv[2]), sys.argv[4:]
calls = max((int(name.split(".")[0]) for name in given.files), default=-1) + 1
results, last = {}, None
for call in range(calls):
    args = []
    while f"{call}.{len(args)}" in given.files:
        args.append(given[f"{call}.{len(args)}"])
    if carried and last is not None:
        args.append(last[int(carried[0])])
    last = program(*args)
    last = last if isinstance(last, tuple) else (last,)
    for index, value in enumerate(last):
        results[f"{call}.{index}"] = np.array(value)
np.savez(sys.argv[3], **results)
"""


def run_without_torch(
    program: Path, calls: list[tuple[np.ndarray, ...]], carry: int | None = None, timeout: float = 280
) -> list[tuple[np.ndarray, ...]]:
    """The outputs of each call. carry: the number of the output that becomes the last argument of the next call;
    only the first call then has it among its arguments."""
    given, found = program.with_suffix(".in.npz"), program.with_suffix(".out.npz")
    np.savez(given, **{f"{i}.{j}": a for i, call in enumerate(calls) for j, a in enumerate(call)})
    extra = [] if carry is None else [str(carry)]
    command = [sys.executable, "-c", CHILD, str(program), str(given), str(found), *extra]
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert result.returncode == 0, result.stderr
    arrays = np.load(found)
    outputs: list[tuple[np.ndarray, ...]] = []
    for i in range(len(calls)):
        names = sorted(n for n in arrays.files if n.startswith(f"{i}."))
        outputs.append(tuple(arrays[n] for n in names))
    return outputs
