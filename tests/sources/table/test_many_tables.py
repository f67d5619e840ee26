"""What the columns of some twenty tables are taken for: looked at by eye once, and held since.

Where a rule changes on purpose, `python -m tests.sources.table.test_many_tables DATA` writes the file anew; read what
has changed in it.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.sources.table.many_tables import FILES, TOYS, looks

DECISIONS = Path(__file__).with_name("decisions.json")


def test_there_are_twenty() -> None:
    assert set(json.loads(DECISIONS.read_text())) == {*FILES, *TOYS}
    assert len({*FILES, *TOYS}) >= 20


@pytest.mark.parametrize("name", TOYS)
def test_decisions_on_tables_of_scikit_learn(name: str) -> None:
    assert looks(Path())[name]() == json.loads(DECISIONS.read_text())[name]


@pytest.mark.parametrize("name", FILES)
def test_decisions_on_files(data_directory, name: str) -> None:
    assert looks(data_directory)[name]() == json.loads(DECISIONS.read_text())[name]


if __name__ == "__main__":
    found = {name: look() for name, look in looks(Path(sys.argv[1])).items()}
    DECISIONS.write_text(json.dumps(found, indent=1) + "\n")
