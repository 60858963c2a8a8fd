"""The command line. Only this folder and the commands/ folders of features use Click.

start.py begins, main.py runs the called command and turns errors into messages and exit codes, and options.py has what commands share.
"""
