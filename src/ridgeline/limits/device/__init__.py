"""The limits of NVIDIA GPUs: copy bandwidth and peak rate."""
