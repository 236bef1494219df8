"""Settings of the model by section, and the rules within and between sections."""
