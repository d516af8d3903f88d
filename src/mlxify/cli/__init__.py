"""The command line: `mlxify convert | run | inspect | check | ops`.

Exit codes: 0 fine, 1 a check failed, 2 wrong usage or unusable input, 3 the model has unsupported operations.
"""

from __future__ import annotations

import sys

from ..errors import MissingExtraError, MlxifyError, UnsupportedOpError

FAILED, USAGE, UNSUPPORTED = 1, 2, 3


def main() -> None:
    """Entry point of the console script."""
    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(f'mlxify: the command line needs {error.name}: pip install "mlxify[cli]"', file=sys.stderr)
        sys.exit(USAGE)
    try:
        app(prog_name="mlxify", standalone_mode=True)
    except UnsupportedOpError as error:
        fail(error, UNSUPPORTED)
    except (MlxifyError, MissingExtraError, OSError) as error:
        fail(error, USAGE)


def fail(error: BaseException, code: int) -> None:
    """Print an error for people, without a traceback, and end the process."""
    print(f"mlxify: {error}", file=sys.stderr)
    sys.exit(code)
