"""What all tests share: steady hypothesis settings, compiled kernels, and where the real data are."""

import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run, and no time limit: a busy machine is not a failure.
# "thorough" has more of them, for the long run of .ci/run: pytest --hypothesis-profile=thorough.
for _name, _examples in {"steady": 20, "thorough": 50}.items():
    settings.register_profile(
        _name,
        derandomize=True,
        deadline=None,
        max_examples=_examples,
        # The first example of a test may compile a kernel.
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("steady")

ROOT = Path(__file__).parent.parent


def kernel_folder() -> str:
    """A folder for compiled kernels that test runs share; its files know what they were made of."""
    return str(Path(tempfile.gettempdir()) / "bayou-test-kernels")


# The hundreds of processes that tests start find modules compiled, as those of users do, whatever the environment says:
# else each of them compiles NumPy, Numba and all of bayou first, which takes 1.5 seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Before anything imports Numba; processes that tests start inherit it.
os.environ.setdefault("NUMBA_CACHE_DIR", kernel_folder())
# As the command does: BLAS threads spin while they wait for one another, which takes the cores from other workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# A shell that runs the tests in the background has them ignore interrupts, and the processes that they start as well:
# those that tests interrupt would never end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests of the site, so that only one of several workers builds it."""
    items.sort(key=lambda item: "site" not in getattr(item, "fixturenames", ()))


def pytest_collection_finish() -> None:
    """What is there by now stays to the end: thousands of tests, Numba, scikit-learn. No collection need look at it."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter) -> None:
    """Print what tests have recorded to be read: the size of each package."""
    for report in terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", []):
        for name, lines in report.user_properties if report.when == "call" else ():
            if name == "printed":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line("\n".join(lines))


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """Real data sets: the folder BAYOU_DATA names, or shared/data beside the repository."""
    named = os.environ.get("BAYOU_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not a folder; set BAYOU_DATA to one that holds them")
    return folder
