"""Where the tests find the public data sets."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

BESIDE_THE_REPOSITORY = Path(__file__).parents[2] / "shared" / "data"


def find_data() -> Path | None:
    if "VESICA_DATA" in os.environ:
        return Path(os.environ["VESICA_DATA"])
    return BESIDE_THE_REPOSITORY if BESIDE_THE_REPOSITORY.is_dir() else None


@pytest.fixture(scope="session")
def data_dir() -> Path:
    found = find_data()
    if found is None:
        pytest.skip("needs the public data sets: set VESICA_DATA to the folder that holds them")
    return found


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    """Each test begins with the usual mask, whatever a command in this process has set."""
    before = os.umask(0o022)
    yield
    os.umask(before)
