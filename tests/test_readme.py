"""The README's example of a notebook runs as it stands."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

from tests.sweep.synthetic import lab

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the example, with a dataset where it looks for one."""
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (name,) = re.findall(r'"(outputs/\S+/dataset.nc)"', code)
    (tmp_path / name).parent.mkdir(parents=True)
    lab().to_netcdf(tmp_path / name, engine="netcdf4")
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    return code


def test_the_notebook_example_runs(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert capsys.readouterr().out.startswith("kernel: v6_1_order_v2 against v6_1\n")
    assert Path("icx.png").stat().st_size > 1000
    assert names["surface"].machine == "icx"  # type: ignore[attr-defined]


def test_every_line_of_the_example_has_its_value(example: str) -> None:
    """A line that is only looked at in a notebook shows something there."""
    names: dict[str, object] = {}
    shown = {}
    for line in example.splitlines():
        code = line.split("  #")[0].strip()
        if code.startswith(("import", "print", "ds =", "found =", "surface =")) or not code:
            exec(code, names)
        else:
            shown[code] = eval(code, names)
    assert float(
        shown['found["change"].sel(machine="icx", workload="hackbench_sockets")'].min()
    ) == (pytest.approx(-12.5))
    assert shown["ds.slab.worst(5)"].sizes == {"point": 5}
    assert float(shown["ds.slab.causes()"].list_lock_wait.max()) == pytest.approx(9)
    assert all(value is not None for code, value in shown.items() if "savefig" not in code)


def test_its_links_lead_somewhere() -> None:
    for page in (
        README,
        *README.parent.glob("*/README.md"),
        *README.parent.glob("tests/*/README.md"),
    ):
        for link in re.findall(r"\]\(([^)#\s]+)\)", page.read_text()):
            assert link.startswith("https://") or (page.parent / link).exists(), (page, link)
