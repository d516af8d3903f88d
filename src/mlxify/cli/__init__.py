"""The command line: `mlxify convert | run | profile | inspect | check | ops | doctor`.

Exit codes: 0 fine, 1 a check failed, 2 wrong usage or unusable input, 3 the model has unsupported operations.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from .. import _need_mlx
from ..errors import MissingExtraError, MlxifyError, UnsupportedOpError

if TYPE_CHECKING:
    import typer

FAILED, USAGE, UNSUPPORTED = 1, 2, 3


def main() -> None:
    """Entry point of the console script."""
    try:
        app = _app()
    except MissingExtraError as error:
        fail(error, USAGE)
    except ModuleNotFoundError as error:
        package = _package(error)
        if package not in ("typer", "rich"):
            raise
        fail(f'the command line needs {package}: pip install "mlxify[cli]"', USAGE)
    try:
        app(prog_name="mlxify", standalone_mode=True)
    except UnsupportedOpError as error:
        fail(error, UNSUPPORTED)
    except ModuleNotFoundError as error:
        if _package(error) != "torch":
            raise
        fail(MissingExtraError('this command needs PyTorch: pip install "mlxify[torch]"'), USAGE)
    except MlxifyError as error:
        fail(error, USAGE)
    except OSError as error:
        if error.filename is None:
            raise
        fail(f"{error.filename}: {error.strerror}", USAGE)


def _app() -> typer.Typer:
    """All commands; where MLX does not work, `doctor` alone."""
    try:
        _need_mlx()
    except MissingExtraError:
        if sys.argv[1:2] != ["doctor"]:
            raise
        from .doctor import alone

        return alone
    from .app import app

    return app


def _package(error: ModuleNotFoundError) -> str:
    return (error.name or "").split(".")[0]


def fail(error: BaseException | str, code: int) -> NoReturn:
    """Print an error for people, without a traceback, and end the process."""
    print(f"mlxify: {error}", file=sys.stderr)
    sys.exit(code)
