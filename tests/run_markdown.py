"""Execute the ```python blocks of a Markdown file, in order and in one namespace (see test_docs).

A ```text block right after a block is the exact output that it must have printed. A block whose first line is
`# name.py` is written to that file first, so that messages name it. `<!-- forget: aten.op.overload -->` and
`<!-- forget: instruction name -->` drop what the project has already, so that a page can show how it was written.
"""

import contextlib
import io
import linecache
import re
import sys
import textwrap
from pathlib import Path

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<body>.*?)^(?P=indent)```$|<!-- forget: (?P<forget>.+?) -->",
    re.M | re.S,
)


def main(path: Path) -> None:
    text = path.read_text()
    scope: dict[str, object] = {"__name__": "__main__"}
    printed, end = "", -1
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 2
        if found["forget"]:
            forget(found["forget"])
            continue
        body = textwrap.dedent(found["body"])
        if found["kind"] == "python":
            printed, end = run(body, f"{path.name}, line {line}", scope), found.end()
        elif (
            found["kind"] == "text"
            and not text[end : found.start()].strip()
            and printed.strip() != body.strip()
        ):
            sys.exit(f"{path.name}, line {line}: the block before printed\n{printed}\nand not\n{body}")


def run(body: str, name: str, scope: dict[str, object]) -> str:
    first = body.split("\n", 1)[0]
    if re.fullmatch(r"# \w+\.py", first):
        name = str(Path(first[2:]).resolve())
        Path(name).write_text(body)
    linecache.cache[name] = (len(body), None, body.splitlines(keepends=True), name)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(body, name, "exec"), scope)
    return output.getvalue()


def forget(what: str) -> None:
    import mlxify
    from mlxify.isa import INSTRUCTIONS
    from mlxify.lowering import LOWERINGS

    mlxify.supported_ops()
    kind, _, name = what.rpartition(" ")
    (INSTRUCTIONS if kind == "instruction" else LOWERINGS).pop(name, None)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
