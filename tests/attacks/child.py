"""Loads hostile files, one after the other, and prints what became of each as a JSON line. Run by test_attacks."""

import json
import resource
import sys
import time

import mlx.core as mx

import mlxify


def main() -> None:
    mlxify.load(sys.argv[1])  # the good file: everything is imported before memory is measured
    for line in sys.stdin:
        name, path = json.loads(line)
        print(json.dumps({"start": name}), flush=True)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
        try:
            program = mlxify.load(path)
            outcome = f"loaded: {program!r}"
        except mlxify.ProgramError as error:
            outcome = f"ProgramError: {error}"
        except BaseException as error:  # whatever it is, the test shall see it
            outcome = f"{type(error).__name__}: {error}"
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        grown = max(grown, mx.get_peak_memory() / 2**20)
        print(
            json.dumps({"name": name, "outcome": outcome, "mb": grown, "s": time.monotonic() - start}),
            flush=True,
        )


if __name__ == "__main__":
    main()
