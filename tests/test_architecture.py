"""The shape of the code: layers, no cycles, no drawer for odds and ends, a light import."""

import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import vesica

SOURCE = Path(vesica.__file__).parent
HEAVY = (
    "polars",
    "pandas",
    "typer",
    "rich",
    "pydantic",
    "matplotlib",
    "nvflare",
    "dp_accounting",
    "opacus",
    "xgboost",
    "lightgbm",
    "cryptography",
)


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("vesica", cache_dir=None)


def test_no_module_imports_itself_through_others(graph: grimp.ImportGraph) -> None:
    cycles = []
    for module in sorted(graph.modules):
        for imported in graph.find_modules_directly_imported_by(module):
            if imported != module and graph.chain_exists(imported, module):
                cycles.append(f"{module} -> {imported}")
    assert cycles == []


def test_the_layers_contract_holds() -> None:
    run = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=SOURCE.parents[1],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout


def test_nothing_is_called_utils() -> None:
    names = {path.stem for path in SOURCE.rglob("*.py")} | {path.name for path in SOURCE.rglob("*") if path.is_dir()}
    assert names.isdisjoint({"utils", "util", "helpers", "common", "misc", "base", "manager"})


def test_a_training_run_needs_torch_and_little_else() -> None:
    """Import everything a run needs and train, with the others hidden as if they were not installed."""
    program = f"""
import sys
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in {HEAVY!r} else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
import vesica
import vesica.experiment.__main__
from vesica.methods import SplitNN
federation = vesica.make_federation("credit", overlap=50)
result = vesica.fit(SplitNN(epochs=1), federation)
print(result.metrics["auc"] > 0)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "True", run.stderr


def test_every_export_is_there() -> None:
    for name in vesica.__all__:
        assert getattr(vesica, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        _ = vesica.fitt


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert vesica.__version__ == version("vesica")
