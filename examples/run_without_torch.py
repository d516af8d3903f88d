"""Run a program file in a process that cannot import PyTorch: what a Mac or a server would do.

    python examples/run_without_torch.py program.safetensors inputs.npz outputs.npz

Prints the time to load and to run as one JSON object.
"""

import json
import statistics
import sys
import time

RUNS = 20


class NoTorch:
    """An import hook that refuses PyTorch, to prove that it is not needed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("PyTorch cannot be imported in this process")
        return None


sys.meta_path.insert(0, NoTorch())

import mlx.core as mx  # noqa: E402
import numpy as np  # noqa: E402

import mlxify  # noqa: E402


def main() -> None:
    program_path, inputs_path, outputs_path = sys.argv[1:]
    start = time.perf_counter()
    program = mlxify.load(program_path)
    loaded = time.perf_counter() - start
    with np.load(inputs_path) as file:
        inputs = {name: file[name] for name in file.files}

    output = program(**inputs)
    mx.eval(output)  # MLX computes when a value is needed
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        mx.eval(program(**inputs))
        seconds.append(time.perf_counter() - start)

    np.savez(outputs_path, embeddings=np.array(output))
    assert "torch" not in sys.modules
    device = mx.default_device().type.name
    print(json.dumps({"load": loaded, "run": statistics.median(seconds), "device": device}))


if __name__ == "__main__":
    main()
