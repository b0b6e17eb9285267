"""Whole programs that send the examples with the official A2A SDKs, for Python and TypeScript. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from dealer_agent.apidocs.examples import example_payload, json_text
from dealer_agent.protocol.card import TOKEN_VARIABLE
from dealer_agent.protocol.skill import Skill
from dealer_agent.protocol.vocabulary import Vocabulary

_TEMPLATES = files(__package__).joinpath("programs")


def python_program(root: str, skills: Sequence[Skill], vocabulary: Vocabulary, *, bearer: bool = False) -> str:
    """A program for `a2a-sdk` that sends the example of each skill to the dealer at the URL `root`.

    With `bearer`, it reads a token from the environment.
    """
    token = f'    headers = {{"Authorization": "Bearer " + os.environ["{TOKEN_VARIABLE}"]}}\n'
    values = {
        "requests": _python_text(_parts(skills, vocabulary)),
        "root": json.dumps(root),
        "import os": "import os\n" if bearer else "",
        "token": token if bearer else "",
        "options": "timeout=30" + ", headers=headers" * bearer,
    }
    return _program("python.txt", values)


def typescript_program(root: str, skills: Sequence[Skill], vocabulary: Vocabulary, *, bearer: bool = False) -> str:
    """The same program for `@a2a-js/sdk`. Without its types, it is also JavaScript."""
    values = {
        "requests": json_text(_parts(skills, vocabulary)),
        # The SDK resolves the path of the card as a relative URL.
        "root": json.dumps(f"{root}/"),
        "options": _FETCH_WITH_TOKEN if bearer else "",
    }
    return _program("typescript.txt", values)


_FETCH_WITH_TOKEN = f"""{{
    fetchImpl: (url, init) => {{
      const headers = new Headers(init?.headers);
      headers.set("Authorization", `Bearer ${{process.env.{TOKEN_VARIABLE}}}`);
      return fetch(url, {{ ...init, headers }});
    }},
  }}"""

_PYTHON_WORDS = {"true": "True", "false": "False", "null": "None"}


def _python_text(value: Any) -> str:
    """A JSON value as Python source text."""
    token = re.compile(r'"(?:\\.|[^"\\])*"|true|false|null')
    return token.sub(lambda match: _PYTHON_WORDS.get(match[0], match[0]), json_text(value))


def _parts(skills: Sequence[Skill], vocabulary: Vocabulary) -> list[dict[str, Any]]:
    return [{"mediaType": vocabulary.request_media_type(skill), "data": example_payload(skill)} for skill in skills]


def _program(template: str, values: Mapping[str, str]) -> str:
    text = _TEMPLATES.joinpath(template).read_text("utf-8").rstrip("\n")
    return re.sub(r"<<([a-z ]+)>>", lambda match: values[match[1]], text)
