"""Writes what is made from the code: `python -m scripts.reference`. These are the pages of `docs/reference`, a diagram,
and the types of the Python and the TypeScript client.

`settings.md`, `feeds.md` and `how-to/alerts.md` are written by hand, except for the parts that the code knows. The
other pages are written as a whole.
"""

from pathlib import Path

from scripts.reference.alerts_page import alerts_page
from scripts.reference.commands_page import commands_page
from scripts.reference.data_model_page import data_model_page
from scripts.reference.feeds_page import feeds_page
from scripts.reference.layers_diagram import layers_diagram
from scripts.reference.python_files import python_files
from scripts.reference.requirements_page import requirements_page
from scripts.reference.settings_page import settings_page
from scripts.reference.typescript_files import typescript_files
from scripts.reference.versions_page import versions_page
from scripts.reference.wire_pages import errors_page, fields_page, skills_page

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def architecture_page() -> dict[Path, str]:
    """The file and the text of ARCHITECTURE.md as a page of the site. Git ignores the file."""
    docs = FOLDER.parent
    text = (docs.parent / "ARCHITECTURE.md").read_text("utf-8")
    return {docs / "architecture.md": text.replace("](docs/", "](")}


def pages() -> dict[Path, str]:
    """The file and the text of each page and of each generated module, as the code says them now."""
    alerts = FOLDER.parent / "how-to" / "alerts.md"
    feeds, settings = FOLDER / "feeds.md", FOLDER / "settings.md"
    return {
        alerts: alerts_page(alerts.read_text("utf-8")),
        feeds: feeds_page(feeds.read_text("utf-8")),
        settings: settings_page(settings.read_text("utf-8")),
        FOLDER / "commands.md": commands_page(),
        FOLDER / "data-model.md": data_model_page(),
        FOLDER / "errors.md": errors_page(),
        FOLDER / "fields.md": fields_page(),
        FOLDER / "published-versions.md": versions_page(),
        FOLDER / "requirements.md": requirements_page(),
        FOLDER / "skills.md": skills_page(),
        FOLDER.parent / "explanation" / "layers.svg": layers_diagram(),
        **python_files(),
        **typescript_files(),
    }
