"""How an attention kernel is called, said once, and a dispatcher that calls it that way.

Consumers break when a kernel changes a name, a keyword or what it returns, because each of them writes the call down
again. Here a kernel is one description (`KernelCapability`), what it accepts is asked of it (`inspect.signature`), and
whatever it returns comes back as one tensor:

    from flexdoctor.kernels import Dispatcher

    attend = Dispatcher([("flash-attn2", kernel)], allow_fallback=True)
    out = attend(q, k, v, causal=True)            # (batch, sequence, heads, head_dim), like q

A new kernel needs one description and no change to the dispatcher. Importing this needs no torch.
"""

from flexdoctor.kernels.capability import DESCRIPTIONS, SPELLINGS, Entry, KernelCapability
from flexdoctor.kernels.dispatch import Call, Dispatcher, KernelUnusableError, MathChangedError, Refusal

__all__ = [
    "DESCRIPTIONS",
    "SPELLINGS",
    "Call",
    "Dispatcher",
    "Entry",
    "KernelCapability",
    "KernelUnusableError",
    "MathChangedError",
    "Refusal",
]
