"""What wheels ask of the system's C and C++ libraries. A table of its own: it is read on every machine."""

from __future__ import annotations

from flexdoctor.knowledge import load_table


def libstdcxx_floor(major: int, minor: int) -> int | None:
    """Return N of the libstdc++.so.6.0.N that wheels of a manylinux tag for this glibc may ask for."""
    rows = load_table("toolchain")["libstdcxx"]
    fitting = [row for row in rows if tuple(map(int, row["glibc"].split("."))) <= (major, minor)]
    return max((int(row["needs"]) for row in fitting), default=None)
