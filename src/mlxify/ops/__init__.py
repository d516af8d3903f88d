"""The instruction set and the lowerings, one file per family. Importing this package registers them all."""

import importlib
import pkgutil

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
