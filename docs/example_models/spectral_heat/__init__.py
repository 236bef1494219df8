"""Heat conduction in Fourier space: the example of docs/spectral-models.md."""
