"""The GPU engine of turbulence: what the device holds, its kernels, its memory."""
