"""The example of docs/adding-a-benchmark.md."""
