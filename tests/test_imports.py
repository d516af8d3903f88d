"""Layers import one way; importing mlxify, loading and running never import torch, and importing is quick."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "mlxify"

# Lower layers first. A module may import from its own layer and from those below it.
LAYERS = [
    ["errors", "tree", "blas"],
    ["program"],
    ["values", "record", "layout", "isa", "once", "device"],
    ["lowering", "calls", "patterns"],
    ["ops"],
    [
        "optimize",
        "verify",
        "inputs",
        "steps",
        "unfused",
        "segments",
        "files",
        "session",
        "bound",
        "format",
        "run",
        "mlxfn",
        "profile",
        "heap",
        "weights",
    ],
    ["convert_torch", "torch_ops", "conditions", "symbols", "graph", "origin"],
    ["plan", "trace", "branches", "decompose"],
    ["store"],
    ["export"],
    ["llm", "check", "support", "conformance"],
    ["cli"],
]
# Imports inside functions, made when they are called: the recorder's own instructions on sizes and keys.
LATE = {("record", "ops"), ("values", "ops")}
TORCH_FREE = {name for layer in LAYERS[:6] for name in layer}


def part_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def imports(path: Path) -> list[tuple[str, bool]]:
    """(top-level part of mlxify or "torch", whether the import is inside a function)."""
    found = []
    tree = ast.parse(path.read_text())
    late = {n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    depth = len(path.relative_to(SOURCE).parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            up = node.level - (path.name == "__init__.py" and len(path.relative_to(SOURCE).parts) > 1)
            if node.level and node.level == depth:
                names = [node.module] if node.module else [alias.name for alias in node.names]
                found += [(name.split(".")[0], node in late) for name in names]
            elif not node.level and node.module:
                found.append((node.module.split(".")[0], node in late))
            del up
        elif isinstance(node, ast.Import):
            found += [(alias.name.split(".")[0], node in late) for alias in node.names]
    return found


FILES = sorted(p for p in SOURCE.rglob("*.py") if p.parent != SOURCE or not p.name.startswith("__"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_layers(path: Path) -> None:
    rank = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    me = part_of(path)
    assert me in rank, f"{me} is in no layer: add it to LAYERS"
    for name, late in imports(path):
        if name == "torch":
            assert me not in TORCH_FREE or late, f"{path.name} imports torch"
        elif name in rank and not (late and (me, name) in LATE):
            assert rank[name] <= rank[me], f"{path.name} imports {name}, a layer above it"


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_import_is_torch_free() -> None:
    assert (
        run("import sys, mlxify; print('torch' in sys.modules, 'mlx.core' in sys.modules)") == "False False"
    )


def test_import_is_quick() -> None:
    """At most 60 ms on top of mlx.core, the best of five processes (a shared machine is sometimes slow)."""
    code = "import mlx.core, time; t = time.perf_counter(); import mlxify; print(time.perf_counter() - t)"
    assert min(float(run(code)) for _ in range(5)) < 0.060
