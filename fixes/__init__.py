"""The remedies, in the order in which they may propose steps. A new one is one module here and one line in FIXES."""

from flexdoctor.fixes import companions, cuda_build, gate, major, reinstall, stack, triton
from flexdoctor.treatment.plan import Fix

FIXES: tuple[Fix, ...] = (
    stack.FIX,
    reinstall.FIX,
    cuda_build.FIX,
    companions.FIX,
    triton.FIX,
    gate.FIX,
    major.FIX,
)


def fixes_for(code: str | None) -> tuple[str, ...]:
    """Return the names of the remedies that can mend a fault."""
    return tuple(fix.name for fix in FIXES if code in fix.opens)
