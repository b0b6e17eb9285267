"""The defects, a module for each subject. `self_test/defect.py` explains how to write one."""
