"""Type checkers refuse mistakes in programs that use the client: mypy in `scripts/check`, and pyright here."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.test_javascript_client import installed

pytestmark = pytest.mark.outside_protocol("the client library")

FOLDER = Path(__file__).parent
MISTAKES = FOLDER / "mistakes.py"


@pytest.mark.soak
def test_pyright_refuses_each_mistake_and_nothing_else(tmp_path: Path) -> None:
    node = installed(FOLDER / "js")
    lines = MISTAKES.read_text("utf-8").splitlines()
    wrong = [number for number, line in enumerate(lines, 1) if "# type: ignore" in line]
    assert len(wrong) >= 20
    shutil.copy(MISTAKES, tmp_path)
    settings = {"extraPaths": [str(FOLDER.parents[1] / "src")], "enableTypeIgnoreComments": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    pyright = FOLDER / "js" / "node_modules" / "pyright" / "index.js"
    done = subprocess.run(
        [node, str(pyright), "--outputjson", "--pythonpath", sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    found = {each["range"]["start"]["line"] + 1 for each in json.loads(done.stdout)["generalDiagnostics"]}
    assert sorted(found) == wrong, done.stdout
