"""Write the generated pages of the documentation: `python docs/generate.py`, or `--check` to compare only."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path

from mlxify import ops
from mlxify.isa import INSTRUCTIONS, Instruction

FOLDER = Path(__file__).parent
HEAD = "<!-- written by docs/generate.py from the source: do not edit -->\n\n"

INTRODUCTION = """# The instruction set

What a program may consist of. An instruction is a typed Python function (see [architecture.md](architecture.md)):
its signature is its schema, its name is its name in files.

Kinds of parameters: `Array`; `Int` and `Number`, which are literals or numbers that the program computes (a size, say);
`int`, `float`, `bool`, `DType` and choices, which are literals; `Block`, a nested piece of program. Names do not
change their meaning: a test keeps the whole set.
"""


def instructions() -> str:
    """The reference page of the instruction set, grouped by the file in which each one lives."""
    modules: dict[str, list[Instruction]] = {}
    for schema in INSTRUCTIONS.values():
        modules.setdefault(schema.fn.__module__, []).append(schema)
    parts = [INTRODUCTION]
    for module in sorted(modules):
        summary = (inspect.getdoc(sys.modules[module]) or "").split("\n\n")[0].replace("\n", " ")
        parts.append(f"## {module.removeprefix('mlxify.')}\n\n{summary}\n")
        parts += [entry(schema) for schema in modules[module]]
    return "\n".join(parts)


def entry(schema: Instruction) -> str:
    lines = [f"### {schema.name}", "", "```", signature(schema), "```", "", schema.doc.strip(), ""]
    for name, kind in zip(schema.parameters, schema.kinds, strict=True):
        if kind.choices:
            lines += [f"`{name}` is one of {', '.join(f'`{choice}`' for choice in kind.choices)}.", ""]
    if schema.sync:
        lines += ["Waits for its argument, so a compiled segment ends before it.", ""]
    return "\n".join(lines)


def signature(schema: Instruction) -> str:
    parameters = []
    for name, parameter in inspect.signature(schema.fn).parameters.items():
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parameters.append(f"{name}: {parameter.annotation}{default}")
    returns = inspect.signature(schema.fn).return_annotation
    return f"{schema.name}({', '.join(parameters)}) -> {returns}"


PAGES: dict[str, Callable[[], str]] = {"instructions.md": instructions}


def main(check: bool) -> int:
    assert ops.__name__ == "mlxify.ops"  # registers the instructions
    stale = []
    for name, write in PAGES.items():
        path, text = FOLDER / name, HEAD + write().rstrip() + "\n"
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run: make docs")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
