"""What all tests share: steady hypothesis settings, and where the real data are."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run, and no time limit: a busy machine is not a failure.
settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    max_examples=50,
    # The first example of a test may compile a kernel.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """Real data sets: the folder BAYOU_DATA names, or shared/data beside the repository."""
    named = os.environ.get("BAYOU_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not a folder; set BAYOU_DATA to one that holds them")
    return folder
