"""Who owns what."""
