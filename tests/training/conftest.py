"""Formulas are checked in float32, on every CPU alike."""

import pytest


@pytest.fixture(autouse=True)
def in_float32(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.name != "test_recording.py":
        monkeypatch.setattr("vesica.training.recording._CPU_HAS_BFLOAT16", False)
