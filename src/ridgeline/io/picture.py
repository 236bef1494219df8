"""Pictures as fields: how dark they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import require_regular


def read_darkness(path: str, shape: tuple[int, int], setting: str) -> NDArray[np.float64]:
    """Return how dark a picture is, 0 (white, or transparent) to 1 (black), resampled to (n_y, n_x).

    The lowest row of the picture comes first, so that y points upwards. setting: the key that names the path, for
    messages. Raises ConfigError if there is no picture to read.
    """
    try:
        require_regular(path)
        with Image.open(path) as image:
            flat = Image.new("L", image.size, 255)
            flat.paste(image.convert("L"), mask=image.convert("RGBA").getchannel("A"))
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        why = getattr(error, "strerror", None) or "is no picture that can be read"
        raise ConfigError(f"{setting}: {path}: {why}; need a picture, such as a PNG file") from None
    resampled = flat.resize(shape[::-1], Image.Resampling.BOX)
    return 1.0 - np.asarray(resampled, np.float64)[::-1] / 255.0
