"""The ops by family: each file holds rows of (op, how its arguments are drawn)."""

import importlib
import pkgutil

from ..runner import Row


def families() -> dict[str, list[Row]]:
    """The rows of every file of this folder."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").ROWS for name in names}
