"""The pictures of the documentation: ``python tools/pictures.py`` writes the drawings of docs/pictures/.

``--all`` writes those that need more, too: filter.png (scikit-image), run.png and bench.png (onnx, matplotlib and
Chromium), which show what this machine measures meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from layoutkit.formats.layout import Layout

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
SMALL, PHOTO = (1, 6, 2, 2), (1, 3, 2, 3)
DRAWINGS = {
    "nchw": ("NCHW", SMALL), "nchw4c": ("nChw4c", SMALL), "photo-nhwc": ("NHWC", PHOTO), "photo-nchw": ("NCHW", PHOTO),
}  # fmt: skip
MODEL = "backend/test/data/light/light_resnet50.onnx"  # of the package onnx
SCREEN = 720, 620  # pixels


def drawings() -> dict[str, str]:
    """Each file's name and text."""
    return {f"{name}.svg": Layout(text).draw(shape)._repr_svg_() for name, (text, shape) in DRAWINGS.items()}


def filtered() -> None:
    """A photograph, its median, and the edges of that, side by side."""
    from PIL import Image
    from skimage import data

    import layoutkit.ndimage as ndi

    picture = data.camera()
    quiet = ndi.median_filter(picture, 7)
    edges = ndi.gaussian_gradient_magnitude(quiet.astype(np.float32), 1.5)
    shown = [picture, quiet, np.clip(255 * edges / np.quantile(edges, 0.995), 0, 255).astype(np.uint8)]
    Image.fromarray(np.hstack(shown)[::2, ::2]).save(FOLDER / "filter.png", optimize=True)


def screens() -> None:
    """The upper part of the page of a network, and of a benchmark."""
    import onnx
    from chromium import Chromium, find
    from PIL import Image

    from layoutkit.__main__ import main as layoutkit

    program = find()
    if program is None:
        raise SystemExit("pictures.py: no Chromium")
    with tempfile.TemporaryDirectory() as place:
        run, bench = Path(place) / "run.html", Path(place) / "bench.html"
        layoutkit(["run", str(Path(onnx.__file__).parent / MODEL), "--html", str(run)])
        layoutkit(["bench", "--quick", "--threads", "1", "--no-save", "--report", str(bench)])
        with Chromium(program) as browser:
            for page in (run, bench):
                browser.open(page.as_uri(), *SCREEN, "light")
                file = FOLDER / f"{page.stem}.png"
                file.write_bytes(browser.picture())
                image = Image.open(file).convert("RGB").crop((0, 0, *SCREEN))
                image.quantize(64, dither=Image.Dither.NONE).save(file, optimize=True)


def main() -> int:
    """Write them; returns the exit code."""
    p = argparse.ArgumentParser(prog="tools/pictures.py", description=__doc__.partition(":")[0])
    p.add_argument("--all", action="store_true", help="those that need other packages, too")
    args = p.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name, text in drawings().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    if args.all:
        filtered()
        screens()
    return 0


if __name__ == "__main__":
    sys.exit(main())
