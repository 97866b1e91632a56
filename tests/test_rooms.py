"""Which room may use which: the model knows nothing of the sweep, nor of files and libraries."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(p for room in ("allocator", "sweep") for p in (ROOT / room).rglob("*.py"))
TOP_LEVEL = {"allocator", "sweep", "conf", "tests", "outputs"}
LONGEST = 400
FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "manager"}
MODEL_MAY_NOT_IMPORT = {"sweep", "hydra", "omegaconf", "ray", "xarray", "netCDF4", "matplotlib"}


def imported(path: Path) -> set[str]:
    """Return the top-level packages that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [p for p in FILES if "allocator" in p.parts], ids=named)
def test_the_model_imports_neither_sweep_nor_its_libraries(path: Path) -> None:
    assert not imported(path) & MODEL_MAY_NOT_IMPORT


@pytest.mark.parametrize("path", FILES, ids=named)
def test_files_are_short_and_named_for_what_they_hold(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST
    assert path.stem not in FORBIDDEN_NAMES


def test_the_sweep_knows_nothing_of_slabs_and_pages() -> None:
    for path in (ROOT / "sweep").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not node.module.startswith(("allocator.slabs", "allocator.pages")), path


def test_the_top_level_is_as_the_user_fixed_it() -> None:
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".")}
    assert folders - {"build"} - {p.name for p in ROOT.glob("*.egg-info")} <= TOP_LEVEL | {
        "__pycache__"
    }
