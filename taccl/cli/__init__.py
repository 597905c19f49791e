"""The command line: click commands that call the public functions of the rooms and show what they say.

Results go to standard output, progress and errors to standard error. Nothing else prints.
"""
