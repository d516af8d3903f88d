"""The documentation is true: its code runs, its links lead somewhere, what is generated is current."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mlxify

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]


def python(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(mlxify.__file__).parent.parent), str(ROOT)]),
    }
    command = [sys.executable, "-W", "ignore", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, env=environment)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_code_runs(page: Path, tmp_path: Path) -> None:
    result = python(str(ROOT / "tests" / "run_markdown.py"), str(page), cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not link.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / link).exists(), f"{name(page)} links to {link}"


def test_generated_pages_are_current() -> None:
    result = python("docs/generate.py", "--check", cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_make_targets_that_the_readme_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make (\w+)", (ROOT / "README.md").read_text()):
        assert re.search(rf"^{target}:", makefile, re.M), target
