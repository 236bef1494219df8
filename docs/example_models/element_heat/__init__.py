"""Heat conduction on spectral elements: the example of docs/element-models.md."""
