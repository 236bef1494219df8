"""The command line in a folder of its own, as tests/cli has it."""

from cli.conftest import ridgeline

__all__ = ["ridgeline"]
