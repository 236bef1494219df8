"""`python -m ridgeline`: the command line."""

from ridgeline.cli.main import main

if __name__ == "__main__":
    main()
