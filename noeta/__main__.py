"""`python -m noeta` is the command line."""

from noeta.cli import main

main()
