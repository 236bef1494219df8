"""Pictures as fields: the darkness of their pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.extras import import_extra
from ridgeline.runtime.files import require_regular


def read_darkness(path: str, shape: tuple[int, int], setting: str) -> NDArray[np.float64]:
    """Return the darkness of a picture, from 0 (white or transparent) to 1 (black), float64 [n_y, n_x].

    path: the picture; shape: (n_y, n_x) to which it is resampled; setting: the key of the path, for messages. The
    lowest row of the picture comes first, so that y points upwards. Raises ConfigError if the picture cannot be read.
    """
    Image = import_extra("PIL.Image", f'{setting} = "{path}", a picture,')
    try:
        require_regular(path)
        with Image.open(path) as image:
            flat = Image.new("L", image.size, 255)
            flat.paste(image.convert("L"), mask=image.convert("RGBA").getchannel("A"))
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        why = getattr(error, "strerror", None) or "the format is unknown, or the file is damaged"
        raise ConfigError(
            f'{setting} = "{path}" cannot be read as a picture: {why}. Give a picture such as a PNG file.'
        ) from None
    resampled = flat.resize(shape[::-1], Image.Resampling.BOX)
    return 1.0 - np.asarray(resampled, np.float64)[::-1] / 255.0
