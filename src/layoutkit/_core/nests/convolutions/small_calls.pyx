"""Calls on tensors of torch, told apart by their forms and attributes: from a call to what was kept for such calls without
Python in between. Tensors are described by DLPack's exchange in C.
"""

from cpython.bool cimport PyBool_Check
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ...dlpack cimport LK_DL_BFLOAT, LK_DL_CPU, LK_DL_FLOAT, LK_DL_MAJOR, lk_dl_exchange, lk_dl_tensor
from ...runtime.registry cimport isa_in_use
from .small cimport Small

cdef enum:
    MAX_NUMBERS = 128   # of a key
    MAX_AXES = 5
    TENSORS = 3         # of a call, at most

# What stands in a key before numbers that are given in a sequence, as a truth value, or not at all.
cdef int64_t SEQUENCE = -(1 << 62), TRUTH = SEQUENCE - 1, NOTHING = SEQUENCE - 2


cdef struct Call:
    int64_t key[MAX_NUMBERS]
    int length
    lk_dl_tensor tensors[TENSORS]


cdef bint put(Call *call, int64_t number) noexcept:
    if call.length == MAX_NUMBERS:
        return False
    call.key[call.length] = number
    call.length += 1
    return True


cdef bint put_value(Call *call, object value) except -1:
    """An attribute: an int, a bool, None, or a tuple or list of such; False for others."""
    cdef int overflow = 0
    cdef long long number
    if PyLong_CheckExact(value):
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        return not overflow and number > SEQUENCE and put(call, number)
    if PyBool_Check(value):
        return put(call, TRUTH) and put(call, value is True)
    if value is None:
        return put(call, NOTHING)
    if not isinstance(value, (tuple, list)):
        return False
    if not (put(call, SEQUENCE) and put(call, len(value))):
        return False
    for item in value:
        if not put_value(call, item):
            return False
    return True


cdef class Large(Small):
    """A call that a function computes. It is kept so that calls like it need no checks, and no dispatcher.

    Parameters
    ----------
    attributes : tuple
        Of the call; for the caller.
    compute : callable
        Of three tensors, or None in the place of some; the result, or None where it has to be found in another way.
    """

    cdef object compute

    def __init__(self, tuple attributes not None, compute):
        Small.__init__(self, None, attributes, 0)
        self.compute = compute


cdef class SmallCalls:
    """What was kept for calls on tensors of some forms.

    Parameters
    ----------
    torch : module
    forward_ad : module
        `torch.autograd.forward_ad`.
    threads : (DispatchKeySet, DispatchKeySet)
        What a thread includes in which no mode is on, or that of inference.
    generation : object with an int of that name
        What was kept before it changed is kept no longer.
    watchers : list
        While there are any, nothing is found.
    most : int
        Calls that are kept.

    Raises
    ------
    ValueError
        torch's DLPack is of another version, or does not describe tensors.
    """

    cdef const lk_dl_exchange *exchange
    cdef object tensor, parameter, empty_like, thread, inference, included, function_mode, autocast, forward_ad, grad_enabled
    cdef object generation, at_generation, excludes, autograd
    cdef list watchers
    cdef readonly dict kept
    cdef int isa
    cdef readonly int most

    def __init__(self, torch, forward_ad, tuple threads not None, generation, list watchers not None, int most):
        exchange = torch.Tensor.__dlpack_c_exchange_api__
        self.exchange = <const lk_dl_exchange *>PyCapsule_GetPointer(exchange, "dlpack_exchange_api")
        if self.exchange.version.major != LK_DL_MAJOR or self.exchange.describe == NULL:
            raise ValueError(f"DLPack {self.exchange.version.major}, expected {LK_DL_MAJOR}, with descriptions")
        self.tensor, self.parameter, self.empty_like = torch.Tensor, torch.nn.Parameter, torch.empty_like
        (self.thread, self.inference), self.included = threads, torch._C._dispatch_tls_local_include_set
        self.function_mode, self.autocast = torch._C._is_torch_function_mode_enabled, torch.is_autocast_enabled
        self.forward_ad, self.grad_enabled = forward_ad, torch.is_grad_enabled
        self.excludes, self.autograd = torch._C._dispatch_tls_is_dispatch_key_excluded, torch._C.DispatchKey.AutogradOther
        self.generation, self.watchers, self.most = generation, watchers, most
        self.kept, self.at_generation, self.isa = {}, None, -1

    cdef bint is_eager(self, tuple tensors) except -1:
        """Whether nothing but the numbers of tensors counts in a call just now: no mode, no transform, no bits."""
        if self.function_mode() or self.autocast("cpu") or self.forward_ad._current_level >= 0:
            return False
        included = self.included()
        if included != self.thread and included != self.inference:
            return False
        for tensor in tensors:
            if tensor is not None and (tensor.is_neg() or tensor._is_zerotensor()):
                return False
        return True

    cdef bint needs_gradients(self, tuple tensors) except -1:
        if not self.grad_enabled() or self.excludes(self.autograd):
            return False
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
        return False

    cdef bint describe(self, object tensor, lk_dl_tensor *to) except -1:
        """Whether it is a tensor of real numbers in memory, and which."""
        if type(tensor) is not self.tensor and type(tensor) is not self.parameter:
            return False
        try:
            self.exchange.describe(<void *>tensor, to)
        except Exception:  # it has no memory of its own: sparse, of another device, ..
            return False
        return to.data != NULL and to.device.type == LK_DL_CPU and to.ndim <= MAX_AXES

    cdef bytes key(self, int kind, tuple tensors, tuple attributes, Call *call):
        """The key of a call, whose tensors are described; None if it is not one to keep."""
        cdef int i, axis
        cdef lk_dl_tensor *t = call.tensors
        call.length = 0
        if self.watchers:
            return None
        put(call, kind)
        for i in range(TENSORS):
            t = &call.tensors[i]
            if tensors[i] is None:
                t.data = NULL
                put(call, NOTHING)
                continue
            if not self.describe(tensors[i], t) or t.dtype.bits < 16 or <size_t>t.data % (t.dtype.bits // 8):
                return None
            if t.dtype.code != LK_DL_FLOAT and t.dtype.code != LK_DL_BFLOAT:
                return None
            put(call, t.dtype.code)
            put(call, t.dtype.bits)
            put(call, t.ndim)
            for axis in range(t.ndim):
                put(call, t.shape[axis])
                put(call, t.strides[axis])
        for value in attributes:
            if not put_value(call, value):
                return None
        return PyBytes_FromStringAndSize(<char *>call.key, call.length * sizeof(int64_t))

    cdef bint is_current(self):
        """Drop what was kept for other costs or another instruction set."""
        generation = self.generation.generation
        if self.isa != isa_in_use() or generation != self.at_generation:
            self.kept.clear()
            self.isa, self.at_generation = isa_in_use(), generation
        return True

    cdef object result(self, Small small, tuple tensors, Call *call):
        cdef lk_dl_tensor to
        cdef char *at[TENSORS]
        cdef int i
        if type(small) is Large:
            return (<Large>small).compute(*tensors)
        y = self.empty_like(small.like)
        if not self.describe(y, &to):
            return None
        for i in range(TENSORS):
            at[i] = <char *>call.tensors[i].data
        return y if small.run(at, <char *>to.data) else None

    def keep(self, Small small, int kind, first, second, third, *attributes):
        """Keep something for calls like this one; None: there is nothing to be kept."""
        cdef Call call
        key = self.key(kind, (first, second, third), attributes, &call)
        if key is None:
            return
        self.is_current()
        if len(self.kept) >= self.most:
            self.kept.clear()
        self.kept[key] = small

    def find(self, int kind, first, second, third, *attributes):
        """What is kept for calls like this one; False if nothing was said about them, or they cannot be kept."""
        cdef Call call
        key = self.key(kind, (first, second, third), attributes, &call)
        self.is_current()
        return None if key is None else self.kept.get(key, False)

    def run(self, int kind, first, second, third, *attributes):
        """The result, if something is kept for calls like this one and the numbers are not unusual; else None."""
        cdef Call call
        cdef tuple tensors = (first, second, third)
        key = self.key(kind, tensors, attributes, &call)
        if key is None:
            return None
        self.is_current()
        small = self.kept.get(key)
        return None if small is None else self.result(small, tensors, &call)

    def over(self, Small small not None, first, second, third):
        """The result of what was found for tensors like these; None if it is not to be used any more."""
        cdef Call call
        cdef tuple tensors = (first, second, third)
        if self.key(0, tensors, (), &call) is None:
            return None
        return self.result(small, tensors, &call)

    def has_no_gradients(self, *tensors):
        """Whether results need not be differentiable, and nothing but the numbers of these plain tensors counts."""
        for tensor in tensors:
            if type(tensor) is not self.tensor and type(tensor) is not self.parameter:
                return False
        return not self.grad_enabled() and self.is_eager(tensors)

    def call(self, int kind, differentiable, first, second, third, *attributes):
        """As `run`, for calls of users: where gradients are needed ``differentiable(first, second, third, small)`` has the
        result."""
        cdef Call call
        cdef tuple tensors = (first, second, third)
        key = self.key(kind, tensors, attributes, &call)
        if key is None:
            return None
        self.is_current()
        small = self.kept.get(key)
        if small is None or not self.is_eager(tensors):
            return None
        if self.needs_gradients(tensors):
            return differentiable(first, second, third, small)
        return self.result(small, tensors, &call)
