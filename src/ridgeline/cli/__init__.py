"""The command line: each command parses its options, calls the package and prints.

main.py lists the commands; nothing here imports anything heavy before a command is called.
"""
