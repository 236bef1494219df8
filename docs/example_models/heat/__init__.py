"""Heat conduction in three dimensions: the example of docs/adding-a-model.md."""
