"""OpenCL images: a layout whose physical axes are grouped into rows, columns and the four lanes of a pixel.

MACE keeps GPU tensors in RGBA images, [height][width][4] in memory. Each of its buffer types is a blocked
format, so an `Image` is a text with two groups and a block of 4: ``(n h) (c w) 4c`` puts the batch and the
height into rows, blocks of channels and the width into columns, four channels into a pixel. An image that
MACE does not have costs another text. Tails are always zero. MACE has no way back from dw_conv2d_filter and
in_out_width; here every image has one, being a layout.

Where MACE's own document errs against its kernels (buffer_to_image.cl), the kernels are followed:

- height-major: n and h are quotient and remainder of the row by ceil(H/4), not by H and N;
- width-major: w and c are quotient and remainder of the column by ceil(W/4), not by W;
- filters are read from OIHW and MIHW buffers, not HWOI and HWIM (here from any layout);
- the image of a convolution filter is I wide, not I rounded up to 4: that is ``conv2d_filter_padded`` here;
- it is not "no different" from [H*W*I, O/4]: that is ``weight_height``, the same memory order of other shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

import numpy as np

from ..convolutions import winograd_matrices as winograd
from ..formats.families import check_meaning
from ..formats.layout import Layout
from ..formats.notation import NAMES, parse_spaced
from ..memory.tensor import Tensor

__all__ = ["BUFFER_TYPES", "Image", "winograd_from_image", "winograd_to_image", "winograd_transform"]

LANES = 4
_PREFIX = "mace:"


class Image:
    """A layout seen as an image of pixels of four lanes: a value, equal when layout and grouping are.

    Parameters
    ----------
    text : str
        A buffer type of MACE (``"in_out_channel"``, with or without ``mace:``; see `BUFFER_TYPES`), or rows,
        columns and lanes: ``"(n h) (c w) 4c"``.

    Attributes
    ----------
    layout : Layout
        What the pixels hold, lane by lane, row by row.
    rows : int
        How many physical axes make up the rows; the columns are those between them and the lanes.

    Raises
    ------
    ValueError
        The text is malformed, or is not rows, columns and a block of 4.

    Examples
    --------
    >>> image = Image("in_out_channel")
    >>> image.layout.tag, image.image_shape((1, 5, 2, 3))          # N C H W -> [width, height]
    ('acBd4b', (6, 2))
    >>> image.pixel((0, 4, 1, 2), (1, 5, 2, 3))                    # x, y, lane
    (5, 1, 0)
    """

    __slots__ = ("layout", "rows", "text")
    layout: Layout
    rows: int
    text: str

    def __new__(cls, text: str | Image) -> Image:
        if isinstance(text, Image):
            return text
        if not isinstance(text, str):
            raise TypeError(f"Image: expected a text such as '(n h) (c w) 4c', got {type(text).__name__}")
        unprefixed = text.removeprefix(_PREFIX)
        spelled = NAMES.get(_PREFIX + unprefixed, unprefixed)
        written, groups = parse_spaced(spelled)
        layout = Layout.from_factors(*written._replace(named=False))  # an image of any tensor
        lanes = layout.factors[-1].size if layout.factors else 0
        if len(groups) != 3 or groups[2] != 1 or lanes != LANES:
            description = f"{len(groups)} groups, the last factor a block of {lanes}"
            expected = f"rows, columns and a block of {LANES}, such as '(n h) (c w) 4c'"
            raise ValueError(f"image {text!r}: expected {expected}, got {description}")
        self = object.__new__(cls)
        for name, value in (("layout", layout), ("rows", groups[0]), ("text", unprefixed)):
            object.__setattr__(self, name, value)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Image is frozen")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Image):
            return NotImplemented
        return (self.layout, self.rows) == (other.layout, other.rows)

    def __hash__(self) -> int:
        return hash((self.layout, self.rows))

    def __reduce__(self):
        return Image, (self.text,)

    def __repr__(self) -> str:
        return f"Image({self.text!r})"

    def image_shape(self, shape: Sequence[int]) -> tuple[int, int]:
        """(width, height) in pixels, in OpenCL's order, of the image that holds a tensor.

        Parameters
        ----------
        shape : sequence of int
            The logical shape of the tensor.
        """
        axes = self.layout.physical_shape(shape)
        return prod(axes[self.rows : -1]), prod(axes[: self.rows])

    def array_shape(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """(height, width, 4): the numpy array that holds the image.

        Parameters
        ----------
        shape : sequence of int
            The logical shape of the tensor.
        """
        width, height = self.image_shape(shape)
        return height, width, LANES

    def pixel(self, index: Sequence[int], shape: Sequence[int]) -> tuple[int, int, int]:
        """(x, y, lane) of a logical index: x and y in pixels, lane below 4.

        Parameters
        ----------
        index : sequence of int
            One index for each dimension.
        shape : sequence of int
            The logical shape of the tensor.

        Raises
        ------
        ValueError
            `index` lies outside `shape`.
        """
        width, _ = self.image_shape(shape)
        rest, lane = divmod(self.layout.offset(index, shape), LANES)
        y, x = divmod(rest, width)
        return x, y, lane

    def index(self, x: int, y: int, lane: int, shape: Sequence[int]) -> tuple[int, ...] | None:
        """The logical index in a lane of pixel (x, y), None in a tail.

        Parameters
        ----------
        x, y : int
            Column and row, in pixels.
        lane : int
            Below 4.
        shape : sequence of int
            The logical shape of the tensor.

        Raises
        ------
        ValueError
            The pixel lies outside the image.
        """
        width, height = self.image_shape(shape)
        if not (0 <= x < width and 0 <= y < height and 0 <= lane < LANES):
            size = f"{width} x {height} x {LANES}"
            raise ValueError(f"{self!r}: pixel ({x}, {y}) lane {lane} lies outside {size}")
        return self.layout.index((y * width + x) * LANES + lane, shape)

    def from_tensor(self, tensor: Tensor) -> np.ndarray:
        """The image of a tensor of any layout, as an array [height, width, 4]; tails are zero.

        Parameters
        ----------
        tensor : Tensor
            Of as many dimensions as the image has.
        """
        moved = tensor.to(self.layout, pad_value=0)
        return moved.array.reshape(self.array_shape(tensor.shape))

    def to_tensor(self, image: np.ndarray, shape: Sequence[int]) -> Tensor:
        """The tensor of logical `shape` that an image [height, width, 4] holds: a view if it is contiguous.

        Parameters
        ----------
        image : array_like
            [height, width, 4], as `array_shape` says.
        shape : sequence of int
            The logical shape of the tensor.

        Raises
        ------
        ValueError
            The image has another size.
        """
        image = np.asarray(image)
        if image.shape != self.array_shape(shape):
            takes = f"shape {tuple(shape)} takes an image of {self.array_shape(shape)}"
            raise ValueError(f"{self!r}: {takes}, got {image.shape}")
        return Tensor(image.reshape(self.layout.physical_shape(shape)), self.layout, shape)


BUFFER_TYPES = tuple(
    name.removeprefix(_PREFIX) for name in NAMES if name.startswith(_PREFIX) and not name.endswith("_padded")
)


def winograd_transform(m: int) -> winograd.Transform:
    """F(m, 3) as MACE's kernels scale it, m in 2, 4, 6: columns of AT are integers.

    It differs from `winograd.transform` for the points 1/2 and -1/2 of m = 6 only: their rows of G are
    divided by 2^5.

    Parameters
    ----------
    m : {2, 4, 6}
        Outputs of a block along each axis.

    Raises
    ------
    ValueError
        `m` is another.
    """
    if m not in (2, 4, 6):
        raise ValueError(f"MACE transforms filters for blocks of 2, 4 or 6 outputs, not {m}")
    t = winograd.transform(m, 3)
    finite = winograd.POINTS[: m + 1]
    return winograd.rescale(t, [*(Fraction(1, p.denominator ** (m - 1)) for p in finite), 1])


def winograd_to_image(filters: Tensor, m: int) -> np.ndarray:
    """The image of 3 x 3 filters (logical O I H W) for Winograd blocks of m: [(m+2)^2 * O, ceil(I/4), 4].

    Pixel (x, y), lane k is U[t] of output channel o and input channel 4x + k, with y = t*O + o and t
    row-major in G g G^T.

    Parameters
    ----------
    filters : Tensor
        Logically (O, I, 3, 3), in any layout.
    m : {2, 4, 6}
        Outputs of a block along each axis.

    Returns
    -------
    ndarray
        The image, of the type of the filters.

    Raises
    ------
    ValueError
        The layout has names of other things than filters, or `m` is another.
    """
    check_meaning(filters.layout, "oihw", "winograd_to_image: the layout")
    u = winograd.transform_filter(filters.numpy(), winograd_transform(m))
    return Image("winograd_filter").from_tensor(Tensor(u, "abc"))


def winograd_from_image(image: np.ndarray, m: int, shape: Sequence[int]) -> Tensor:
    """The filters, in OIHW, restored from an image; MACE itself never transforms them back.

    Parameters
    ----------
    image : array_like
        [(m+2)^2 * O, ceil(I/4), 4], as `winograd_to_image` makes it.
    m : {2, 4, 6}
        Outputs of a block along each axis.
    shape : sequence of int
        The logical shape of the filters, (O, I, 3, 3).

    Raises
    ------
    ValueError
        `m` or the shape is another, or the image has another size.
    """
    if len(shape) != 4 or tuple(shape[2:]) != (3, 3):
        raise ValueError(f"a Winograd image holds filters (O, I, 3, 3), not {tuple(shape)}")
    u = Image("winograd_filter").to_tensor(image, ((m + 2) ** 2, shape[0], shape[1]))
    return Tensor(winograd.restore_filter(u.numpy(), winograd_transform(m)), "OIHW")


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__name__"]
