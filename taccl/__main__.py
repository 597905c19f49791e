"""`python -m taccl` is `taccl`."""

from taccl.cli.main import main

main(prog_name="taccl")
