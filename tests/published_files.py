"""Files of others that some tests compare with: published schemas and examples, a DTD, a real feed.

They are not a part of the project. The tests that need them are skipped where they are absent.
"""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("TEST_PUBLISHED_FILES", Path(__file__).parents[2] / "shared"))
SCHEMAS = FOLDER / "spec" / "aap"
"""A folder for each version of the Auto Agent Protocol: `v1.3/schemas` and `v1.3/examples`."""
ADF_DTD = FOLDER / "data" / "adf" / "adf-1.0.dtd"
VAUTO_EXPORT = FOLDER / "data" / "vauto" / "vauto_inventory.csv"


def absent(path: Path) -> str:
    """Why a test is skipped, and how to get what it needs."""
    return (
        f"GAP: {path.relative_to(FOLDER)} is absent. Get it from its publisher (CONTRIBUTING.md), and name the folder"
        f" above {path.relative_to(FOLDER).parts[0]}/ in TEST_PUBLISHED_FILES"
    )


def needs(path: Path) -> pytest.MarkDecorator:
    """Skips a test where a file or folder is absent."""
    return pytest.mark.skipif(not path.exists(), reason=absent(path))
