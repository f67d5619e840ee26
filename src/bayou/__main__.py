"""Entry point of `python -m bayou`, which runs the command `bayou`."""

from bayou.cli import main

main()
