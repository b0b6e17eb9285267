"""The controls, a module for each module of `checks/`. `tests/checker/breaking.py` explains how to write one."""
