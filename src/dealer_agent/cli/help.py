"""`dealer-agent help`: the reference of the documentation on the terminal. The wheel contains its pages."""

import os
import re
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from dealer_agent.cli.terminal import out, terminal_width
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.reference_pages import reference_pages

_TITLE = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^]\[]+)\]\([^)\s]+\)")
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)


def help(  # noqa: A001 - the name of the command
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="A page, such as settings. Without it, the topics are listed.")
    ] = "",
    section: Annotated[
        list[str] | None, typer.Argument(metavar="SECTION", help="Only this section, such as mail.")
    ] = None,
) -> None:
    """Show a page of the reference: settings, commands, feeds, fields, errors and others.

    On a terminal, a pager shows it. Else it is printed as Markdown.
    """
    pages = reference_pages()
    if not topic:
        width = max(map(len, pages)) + 2
        for name, page in pages.items():
            out.print(f"{name:<{width}}{_first_title(page.read_text('utf-8'))}")
        out.print("\nA page: dealer-agent help settings. One section of it: dealer-agent help settings mail")
        return
    if topic not in pages:
        names = ", ".join(pages)
        raise typer.BadParameter(f"there is no page {topic!r}; the pages are {names}{did_you_mean(topic, [*pages])}")
    text = _COMMENT.sub("", pages[topic].read_text("utf-8"))
    _show(_section(text, " ".join(section)) if section else text)


def _first_title(text: str) -> str:
    title = _TITLE.search(text)
    return title[2] if title else ""


def _section(text: str, name: str) -> str:
    """The section with this title, and the sections below it. Brackets, backticks and case do not matter.

    Raises BadParameter without such a section.
    """
    hidden = _FENCED.sub(lambda block: " " * len(block[0]), text)
    titles = [(match.start(), len(match[1]), _plain(match[2])) for match in _TITLE.finditer(hidden)]
    wanted = _plain(name)
    matches = [each for each in titles if each[2] == wanted] or [each for each in titles if wanted in each[2]]
    if not matches:
        similar = did_you_mean(wanted, [title for _, _, title in titles])
        raise typer.BadParameter(f"the page has no section {name!r}{similar}")
    start, level, _ = matches[0]
    end = next((at for at, depth, _ in titles if at > start and depth <= level), len(text))
    return text[start:end]


def _plain(title: str) -> str:
    return re.sub(r"[\[\]`*]", "", title).strip().casefold()


def _show(text: str) -> None:
    """Shows a Markdown text: in a pager on a terminal, else as it is."""
    if (width := terminal_width()) is None:
        typer.echo(text)
        return
    # As git does: less shows colours, and ends by itself if the text fits the screen.
    os.environ.setdefault("LESS", "-FRX")
    console = Console(width=width)
    with console.pager(styles=True):
        console.print(Markdown(_for_terminal(text)))


def _for_terminal(text: str) -> str:
    """The page without links, and with each row of a table as an item of a list: its tables need wide columns."""
    lines: list[str] = []
    titles: list[str] = []
    for line in _LINK.sub(r"\1", text).splitlines():
        if not line.startswith("|"):
            titles = []
            lines.append(line)
        elif not titles:
            titles = _cells(line)
        elif set(line) - set("|-: "):
            first, *others = _cells(line)
            facts = [f"{title}: {cell}" for title, cell in zip(titles[1:], others, strict=False) if cell]
            lines += [f"- {first}", *(f"\n  {fact}" for fact in facts), ""]
    return "\n".join(lines)


def _cells(line: str) -> list[str]:
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
