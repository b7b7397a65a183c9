"""The remedies, in the order in which they may propose steps. A new one is one module here and one line in FIXES."""

from flexdoctor.fixes import companions, cuda_build, gate, hub_consumer, hub_registry, major, reinstall, stack, triton
from flexdoctor.treatment.plan import Fix

FIXES: tuple[Fix, ...] = (
    stack.FIX,
    reinstall.FIX,
    cuda_build.FIX,
    companions.FIX,
    triton.FIX,
    gate.FIX,
    major.FIX,
    hub_consumer.FIX,
    hub_registry.FIX,
)
