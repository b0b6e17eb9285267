"""Tests the checker itself: a conforming dealer, broken in one way at a time. `dealer-agent check --self-test` runs it.

defect.py         what a defect is: a function between the checker and the dealer
changing.py, reading.py   defects in one line: changes of requests and responses
defects/*.py      the defects, a module for each subject
sentences.toml    what the dealer of each defect does
dealer.py         the conforming dealer, which runs in this process
matrix.py         checks the dealer with each defect, and says what was found

The defects are independent of the checks: no module of `defects/` imports the checker.
"""
