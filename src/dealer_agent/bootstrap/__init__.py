"""Composes the service from its parts. No other module does."""

import gc
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from dealer_agent.bootstrap.composition import serving
from dealer_agent.config.installation import Installation, load_served
from dealer_agent.core_dumps import forbid_core_dumps
from dealer_agent.server.app import DealerApp

SERVED_FOLDER_VARIABLE = "DEALER_AGENT_DIR"
ADDRESS_VARIABLE = "DEALER_AGENT_LISTENS_AT"
COLLECTION_THRESHOLDS = (700, 10, 100)
"""Python's own, except that full collections are ten times as rare. With thousands of connections, one takes half a
second. Closed connections and answered requests are in no reference cycle."""

SWITCH_SECONDS = 0.0005
"""How long a thread runs Python code while another one is ready. The lead writer waits for the event loop this long
after each statement: with Python's 5 ms, a flood would delay each statement of another dealer's lead that much. It
costs about 8 % of the processor time of a lead, so only a service of many dealers has it."""


def app() -> DealerApp:
    """The application of a worker process. The command line passes the folder and the URL in the environment."""
    forbid_core_dumps()
    prepare_message_types(msgspec.Struct)
    # Imported objects live as long as the process. A garbage collection that scans them would delay a request.
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    installation = load_served(Path(os.environ[SERVED_FOLDER_VARIABLE]), os.environ, os.environ[ADDRESS_VARIABLE])
    if installation.only is None:
        sys.setswitchinterval(SWITCH_SECONDS)
    return application(installation)


def prepare_message_types(base: type[msgspec.Struct]) -> None:
    """Builds msgspec's decoders of all types that derive from `base`.

    Otherwise msgspec builds a decoder at its first use. If two threads then use a type for the first time at once, the
    process crashes with a segmentation fault.
    """
    for each in base.__subclasses__():
        # Types that are never decoded raise TypeError.
        with suppress(TypeError):
            msgspec.json.Decoder(each)
        prepare_message_types(each)


def application(installation: Installation) -> DealerApp:
    """The application of all dealers of an installation."""
    return DealerApp(partial(serving, installation))
