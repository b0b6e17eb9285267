"""Processes for tests that need them on purpose: they race, and they are killed.

A server without threads forks them. A fork of the process of the tests itself could have a lock of SQLite that another
thread held at that moment, and would wait for it for ever.
"""

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["dealer_agent.bootstrap.composition", "dealer_agent.cli.keys", "tests.storage.samples"])
