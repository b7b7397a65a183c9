"""What every test runs in: no colour or locale of the user's, no environment of theirs to examine."""

from __future__ import annotations

from pathlib import Path

import pytest

_FOREIGN = (
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONPATH",
    "ASCEND_HOME_PATH",
    "TORCH_TRANSFER_TO_NPU",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "FLEXDOCTOR_CONFIG",
    "FLEXDOCTOR_COLLECT",
    "FLEXDOCTOR_FORMAT",
    "FLEXDOCTOR_LANG",
    "FLEXDOCTOR_REQUIRE",
    "FLEXDOCTOR_FAIL_ON",
    "FLEXDOCTOR_STRICT",
    "FLEXDOCTOR_TIMEOUT",
)


@pytest.fixture(autouse=True)
def _neutral_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _FOREIGN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An empty folder of packages."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    return folder
