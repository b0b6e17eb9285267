"""The ways in which an agent can be broken, a module for each subject. `self_test/defect.py` says how to add one."""
