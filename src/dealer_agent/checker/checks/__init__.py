"""All checks of the checker, a module for each subject. `check.py` explains how to write one."""
