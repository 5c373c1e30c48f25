"""`python -m motet`: the command line."""

from motet.cli import main

main()
