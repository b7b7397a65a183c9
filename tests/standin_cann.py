"""A CANN runtime without CANN: shared libraries that do just enough for the real torch_npu to import and hold tensors.

No driver, no chip and no kernel is involved: tensors lie in host memory, and a kernel that is launched does nothing.
What torch_npu asks for beyond the few functions below answers with success. The number of pretended devices is
STANDIN_DEVICES (default 0), the name of the chip is Ascend910B1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

RUNTIME = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, GIB = 1 << 30 };

/* Host memory stands for device memory; the runtime promises blocks of 512 bytes. */
static int take(void **where, size_t size) {
    *where = aligned_alloc(512, (size + 1023) & ~(size_t)511);
    return *where ? OK : 207001;
}
static int handle(void **where) { return take(where, 64); }

int aclInit(const char *path) { (void)path; return OK; }
int aclrtGetDeviceCount(uint32_t *count) {
    const char *wanted = getenv("STANDIN_DEVICES");
    *count = wanted ? (uint32_t)strtoul(wanted, NULL, 10) : 0;
    return OK;
}
const char *aclrtGetSocName(void) { return "Ascend910B1"; }
const char *aclGetRecentErrMsg(void) { return "no CANN here, only a stand-in"; }
size_t aclGetCompileoptSize(int option) { (void)option; return 8; }
int aclGetCompileopt(int option, char *value, size_t size) {
    (void)option;
    memset(value, 0, size);
    value[0] = '0';
    return OK;
}
int aclrtGetDevice(int32_t *device) { *device = 0; return OK; }
int aclrtGetCurrentContext(void **context) { static uint64_t only[8]; *context = only; return OK; }
int aclrtCreateStream(void **stream) { return handle(stream); }
int aclrtCreateStreamWithConfig(void **stream, uint32_t a, uint32_t b) { (void)a; (void)b; return handle(stream); }
int aclrtCreateEventExWithFlag(void **event, uint32_t flag) { (void)flag; return handle(event); }
int aclrtMalloc(void **where, size_t size, int policy) { (void)policy; return take(where, size); }
int aclrtMallocAlign32(void **where, size_t size, int policy) { (void)policy; return take(where, size); }
int aclrtMallocHost(void **where, size_t size) { return take(where, size); }
int aclrtGetMemInfo(int kind, size_t *unused, size_t *all) {
    (void)kind;
    *unused = *all = (size_t)32 * GIB;
    return OK;
}
int aclrtMemcpy(void *to, size_t room, const void *from, size_t size, int kind) {
    (void)room; (void)kind;
    memcpy(to, from, size);
    return OK;
}
"""
#: What triton-ascend's driver is compiled against: it asks for the chip and its cores.
RUNTIME_HEADER = r"""
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
typedef int rtError_t;
typedef void *rtStream_t;
typedef int rtMemcpyKind_t;
enum rtLimitType_t {
    RT_LIMIT_TYPE_LOW_POWER_TIMEOUT, RT_LIMIT_TYPE_STACK_SIZE, RT_LIMIT_TYPE_SIMT_WARP_STACK_SIZE,
    RT_LIMIT_TYPE_SIMT_DVG_WARP_STACK_SIZE
};
struct rtDevBinary_t { uint32_t magic; uint32_t version; const void *data; uint64_t length; };
enum {
    RT_ERROR_NONE, RT_DEV_BINARY_MAGIC_ELF, RT_DEV_BINARY_MAGIC_ELF_AIVEC, RT_MEMORY_HBM, RT_MEMORY_HOST,
    RT_MEMCPY_HOST_TO_DEVICE, RT_MEMCPY_DEVICE_TO_HOST
};
template <typename... A> inline rtError_t nothing(A...) { return RT_ERROR_NONE; }
#define rtDevBinaryRegister nothing
#define rtFunctionRegister nothing
#define rtSetDevice nothing
#define rtDeviceSetLimit nothing
#define rtStreamCreate nothing
#define rtStreamDestroy nothing
#define rtMalloc nothing
#define rtMallocHost nothing
#define rtFree nothing
#define rtFreeHost nothing
#define rtMemcpy nothing
inline rtError_t rtGetSocVersion(char *name, uint32_t size) { std::strncpy(name, "Ascend910B1", size); return 0; }
inline rtError_t rtGetAiCoreCount(uint32_t *count) { *count = 24; return 0; }
"""
#: triton-ascend takes a CANN for active when its compiler names this target.
COMPILER = '#!/bin/sh\n[ "$1" = -print-targets ] && echo hiipu64\nexit 0\n'
_NAME = rb"(?:acl(?!nn)[a-z]*[A-Z]\w*|rt[A-Z]\w*|[Hh]ccl[A-Z]\w*|Hcom\w*|Msprof\w*|ge[A-Z]\w*|Adx\w*|tdt\w*)"
_ALWAYS = ("hccl", "acl_op_compiler", "ge_runner", "graph", "acl_tdt_channel", "runtime")
_OWN = re.compile(r"torch|c10|torch_cpu|torch_python|torch_npu|npu_profiler|tensorpipe|ascendcl|op_plugin_atb")


@dataclass(frozen=True)
class StandIn:
    """Where it lies, and the variables that `source set_env.sh` would set."""

    folder: Path

    def environment(self, devices: int = 1, path: str = "") -> dict[str, str]:
        """Return the variables; `path` is the PATH to extend when triton is to find a compiler."""
        found = {
            "LD_LIBRARY_PATH": str(self.folder / "lib64"),
            "ASCEND_HOME_PATH": str(self.folder),
            "ASCEND_OPP_PATH": str(self.folder / "opp"),
            "STANDIN_DEVICES": str(devices),
        }
        return {**found, "PATH": f"{self.folder / 'bin'}:{path}"} if path else found


def can_build() -> bool:
    """Whether the tools for it are here."""
    return all(shutil.which(tool) for tool in ("gcc", "nm", "readelf"))


def build(site: Path, folder: Path) -> StandIn:
    """Build the libraries that the torch_npu in `site` asks for."""
    for name in ("lib64", "opp", "runtime", "compiler", "bin", "include/experiment/runtime/runtime"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    libraries = [*sorted((site / "torch_npu" / "lib").glob("*.so")), *sorted((site / "torch_npu").glob("_C*.so"))]
    wanted = set[str]()
    for library in libraries:
        # What the linker needs, and what is looked up by name while it runs.
        undefined = _run("nm", "-D", "--undefined-only", str(library)).encode()
        wanted |= {found.decode() for found in re.findall(rb"\bU (" + _NAME + rb")(?=@|\s)", undefined)}
        wanted |= {found.decode() for found in re.findall(rb"\0(" + _NAME + rb")(?=\0)", library.read_bytes())}
    ours = set(re.findall(r"^(?!static)\S.*?\b(\w+)\(", RUNTIME, re.MULTILINE))
    rest = "".join(f"long {name}(void) {{ return 0; }}\n" for name in sorted(wanted - ours))
    (folder / "runtime.c").write_text(RUNTIME + rest)
    lib = folder / "lib64"
    _run("gcc", "-w", "-shared", "-fPIC", "-o", str(lib / "libascendcl.so"), str(folder / "runtime.c"))
    dynamic = _run("readelf", "-d", *map(str, libraries))
    needed = {name for name in re.findall(r"\(NEEDED\).*\[lib([a-z_0-9]+)\.so\]", dynamic) if not _OWN.fullmatch(name)}
    (folder / "empty.c").write_text("")
    for name in sorted({*needed, *_ALWAYS}):
        _run(
            "gcc", "-shared", "-fPIC", "-o", str(lib / f"lib{name}.so"), str(folder / "empty.c"),
            f"-Wl,-soname,lib{name}.so", "-Wl,--no-as-needed", f"-L{lib}", "-lascendcl",
        )  # fmt: skip
    (folder / "include/experiment/runtime/runtime/rt.h").write_text(RUNTIME_HEADER)
    compiler = folder / "bin" / "bisheng"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    return StandIn(folder)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
