"""`python -m bayou` is the command `bayou`."""

from bayou.cli import main

main()
