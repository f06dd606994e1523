"""layoutkit in torch: whole models as compiled programs, and convolutions with gradients.

    import layoutkit.torch
    fast = layoutkit.torch.optimize(model.eval(), x)  # inference: the whole model runs here, fused
    fast = torch.compile(model, backend="layoutkit")  # the same for what torch.compile captures
    layoutkit.torch.convert(model)  # training: convolutions run here, batch norm and pooling where faster
    print(layoutkit.torch.compare(model, x))  # whether that would be faster

Tensors are read and written where they lie, those in channels_last too; results have the memory format that torch's
convolutions give them. In three dimensions torch's depends on the type, the size and the machine: here it is
channels_last_3d if the input or the weight suggests it. There are gradients of any order: the three operators that the
gradients of a convolution consist of are the gradients of one another.

Tensors are of the CPU, of float32, float64, float16 or bfloat16; `torch.autocast` casts them as it does for torch's
convolutions. `torch.ops.layoutkit` has the operators, of which torch knows shapes, strides and gradients: `make_fx`,
`torch.compile` and `torch.export` keep them in their graphs, tensors of device meta pass through, and
`torch.fx.symbolic_trace` records calls of `conv` and `conv_transpose`, and of modules of batch norm. `torch.func`
transforms them (grad, vmap, jvp and what is built of these); there is no `torch.jit`.
"""

from . import norms, pools  # noqa: F401  (their operators)
from .comparing import Comparison, compare
from .conv_norms import conv_batch_norm
from .converting import convert
from .functional import avg_pool2d, avg_pool3d, batch_norm, max_pool2d, max_pool3d
from .functions import conv, conv_transpose
from .modules import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .optimizing import Optimized, optimize

__all__ = [
    "Comparison", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Optimized",
    "avg_pool2d", "avg_pool3d", "batch_norm", "compare", "conv", "conv_batch_norm", "conv_transpose", "convert",
    "max_pool2d", "max_pool3d", "optimize",
]  # fmt: skip


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__name__"]
