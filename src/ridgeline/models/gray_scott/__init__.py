"""Gray-Scott reaction-diffusion in three dimensions."""
