"""The checks, a module for each subject. `check.py` explains how to write one."""
