#!/usr/bin/env python3
"""Run flex_attention step by step in this interpreter, and report each step as it ends.

This file stands alone: Python 3.8 or later, nothing but the standard library until a step imports torch. It writes
one JSON object a line to the file that --report names, opened anew for each line, so that neither noise on stdout nor
a closed descriptor nor the death of the process loses what was already said.

    python probe.py --report FILE [--stages a,b,c] [--device npu|cpu|cuda|auto] [--ranks N]
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import importlib.util
import json
import math
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

#: Every stage in order, and the stages without which it makes no sense.
STAGES: dict[str, tuple[str, ...]] = {
    "python": (),
    "torch": ("python",),
    "torch_npu": ("torch",),
    "autoload": ("torch",),
    "devices": ("torch",),
    "properties": ("devices",),
    "triton": ("torch",),
    "gate": ("devices",),
    "eager": ("devices",),
    "compiled_forward": ("devices",),
    "compiled_backward": ("compiled_forward",),
    "causal": ("compiled_forward",),
    "sliding_window": ("compiled_forward",),
    "gqa": ("compiled_forward",),
    "dynamic_length": ("compiled_forward",),
    "captured": ("compiled_forward",),
    "document_mask": ("compiled_forward",),
    "alibi": ("compiled_forward",),
    "ranks_inside": ("compiled_forward",),
    "ranks_around": ("compiled_forward",),
}
#: Run under torchrun, and only when more than one rank is asked for.
RANK_STAGES = ("ranks_inside", "ranks_around")

LENGTH, WINDOW, HEADS, WIDTH = 256, 64, 2, 64
#: The largest difference from scaled_dot_product_attention, computed in float32 on the CPU, that counts as equal:
#: inputs are standard normal, so results are of the order of one. Gradients are held against the largest one.
TOLERANCE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
#: Where torch takes has_triton by name; each copy compares the properties of the device on its own.
HAS_TRITON = (
    "torch.utils._triton",
    "torch._dynamo.utils",
    "torch._inductor.compile_fx",
    "torch._inductor.runtime.autotune_cache",
    "torch._inductor.scheduler",
)
MAX_TEXT, MAX_FRAMES, MAX_ERRORS = 6000, 40, 8


class Skip(Exception):  # noqa: N818 - not an error
    """The stage does not apply here; the text says why."""


class WrongResultError(Exception):
    """The run ended, and its numbers are not those of the reference."""


class Difference(NamedTuple):
    """How far a result is from its reference, and how far it may be."""

    name: str
    value: float
    allowed: float


class Reporter:
    """Appends lines to the report, each with a descriptor of its own."""

    def __init__(self, path: str, rank: int | None) -> None:
        self.path, self.rank = path, rank

    def say(self, **line: Any) -> None:
        """Write one line at once."""
        if self.rank is not None:
            line["rank"] = self.rank
        data = (json.dumps(line) + "\n").encode("ascii")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


class Patient:
    """The torch of this interpreter and the device to run on, found when first asked for."""

    def __init__(self, asked: str) -> None:
        self.asked = asked
        self._type: str | None = None if asked == "auto" else asked

    @property
    def torch(self) -> Any:
        """The torch module, with torch_npu loaded when the device needs it."""
        return importlib.import_module("torch")

    @property
    def type(self) -> str:
        """The device type: the one asked for; else npu where torch_npu is installed, cuda where usable, cpu."""
        if self._type is None:
            if is_installed("torch_npu"):
                self._type = "npu"
            else:
                self._type = "cuda" if self.torch.cuda.is_available() else "cpu"
        return self._type

    @property
    def device(self) -> str:
        """The device as torch spells it."""
        return "cpu" if self.type == "cpu" else "{}:{}".format(self.type, os.environ.get("LOCAL_RANK", "0"))

    @property
    def dtype(self) -> Any:
        """What attention is run in on such a device."""
        return self.torch.float32 if self.type == "cpu" else self.torch.float16

    @property
    def flex(self) -> Any:
        """The module of flex_attention, with torch_npu loaded before when it has a part in this."""
        self.load_npu()
        return importlib.import_module("torch.nn.attention.flex_attention")

    def load_npu(self) -> None:
        """Import torch_npu where it is needed, as a program for NPUs does."""
        if self.type == "npu":
            importlib.import_module("torch_npu")

    def tensor(self, heads: int, length: int, seed: int) -> Any:
        """Random numbers, the same on each device."""
        torch = self.torch
        generator = torch.Generator(device="cpu").manual_seed(seed)
        values = torch.randn(1, heads, length, WIDTH, generator=generator, dtype=torch.float32, device="cpu")
        return values.to(self.dtype).to(self.device)

    def inputs(self, length: int = LENGTH, key_heads: int = HEADS) -> tuple[Any, Any, Any]:
        """Query, key and value."""
        return self.tensor(HEADS, length, 1), self.tensor(key_heads, length, 2), self.tensor(key_heads, length, 3)

    def wait(self) -> None:
        """Let the device finish, so that its errors belong to this stage and its time is counted."""
        if self.type != "cpu":
            getattr(self.torch, self.type).synchronize()


class Case(NamedTuple):
    """One way in which people use flex_attention."""

    score_mod: Callable[..., Any] | None = None
    mask_mod: Callable[..., Any] | None = None
    key_heads: int = HEADS


def is_installed(module: str) -> bool:
    """Whether there is such a top-level module, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def causal(_b: Any, _h: Any, query: Any, key: Any) -> Any:
    """Each token sees those before it."""
    return query >= key


def window(_b: Any, _h: Any, query: Any, key: Any) -> Any:
    """Each token sees the last few."""
    return (query >= key) & (query - key <= WINDOW)


def make_document_mask(torch: Any, device: str) -> Case:
    """Return a mask that looks up which document a token belongs to."""
    documents = torch.tensor([0] * 100 + [1] * 60 + [2] * (LENGTH - 160), dtype=torch.int32, device="cpu").to(device)

    def same_document(_b: Any, _h: Any, query: Any, key: Any) -> Any:
        return documents[query] == documents[key]

    return Case(mask_mod=same_document)


def make_alibi(torch: Any, device: str) -> Case:
    """Return a bias that grows with the distance, by a slope that is looked up by head."""
    slopes = torch.tensor([2.0 ** -(head + 1) for head in range(HEADS)], dtype=torch.float32, device="cpu").to(device)

    def alibi(score: Any, _b: Any, head: Any, query: Any, key: Any) -> Any:
        return score + slopes[head] * (key - query)

    return Case(score_mod=alibi)


def make_captured(torch: Any, device: str) -> Case:
    """Return a bias that is looked up by head and position, as a learned one is."""
    values = torch.linspace(-2.0, 2.0, HEADS * LENGTH, dtype=torch.float32, device="cpu")
    bias = values.reshape(HEADS, LENGTH).to(device)

    def learned(score: Any, _b: Any, head: Any, _query: Any, key: Any) -> Any:
        return score + bias[head, key]

    return Case(score_mod=learned)


def make_case(name: str, torch: Any, device: str) -> Case:
    """Return the functions of a case, with what they capture on `device`."""
    fixed = {
        "causal": Case(mask_mod=causal),
        "sliding_window": Case(mask_mod=window),
        "gqa": Case(mask_mod=causal, key_heads=1),
        "dynamic_length": Case(mask_mod=causal),
    }
    made = {"document_mask": make_document_mask, "alibi": make_alibi, "captured": make_captured}
    return made[name](torch, device) if name in made else fixed.get(name, Case())


def reference(torch: Any, case: Case, query: Any, key: Any, value: Any) -> Any:
    """Return what scaled_dot_product_attention gives in float32 on the CPU, for inputs that are there already."""
    heads, length, key_length = query.shape[1], query.shape[2], key.shape[2]
    index = [
        torch.zeros(1, 1, 1, 1, dtype=torch.int64),
        torch.arange(heads).reshape(1, -1, 1, 1),
        torch.arange(length).reshape(1, 1, -1, 1),
        torch.arange(key_length).reshape(1, 1, 1, -1),
    ]
    bias = torch.zeros(1, heads, length, key_length)
    if case.score_mod:
        bias = case.score_mod(bias, *index)
    if case.mask_mod:
        bias = bias.masked_fill(~case.mask_mod(*index), float("-inf"))
    groups = heads // key.shape[1]
    key, value = (item.repeat_interleave(groups, dim=1) for item in (key, value))
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)


def difference(name: str, result: Any, expected: Any, allowed: float) -> Difference:
    """Compare on the CPU in float32; what is not a number counts as infinitely far."""
    distance = (result.detach().to("cpu").float() - expected.detach().to("cpu").float()).abs().max().item()
    return Difference(name, math.inf if math.isnan(distance) else distance, allowed)


def settle(differences: list[Difference]) -> dict[str, str]:
    """Return the differences as values of the report.

    Raises:
        WrongResultError: one of them is larger than allowed.
    """
    values = {f"difference {item.name}": "{:.2g} of {:g}".format(*item[1:]) for item in differences}
    wrong = [item for item in differences if not item.value <= item.allowed]
    if wrong:
        raise WrongResultError("; ".join("off {} by {:.3g}, {:g} is allowed".format(*item) for item in wrong))
    return values


# --- the stages ------------------------------------------------------------------------------------------------------


def stage_python(_patient: Patient) -> dict[str, str]:
    """Say which interpreter this is."""
    return {"version": platform.python_version(), "executable": sys.executable}


def stage_torch(_patient: Patient) -> dict[str, str]:
    """Import torch alone."""
    torch = importlib.import_module("torch")
    return {
        "version": str(getattr(torch, "__version__", "?")),
        "file": str(getattr(torch, "__file__", None)),
        "cuda": str(getattr(getattr(torch, "version", None), "cuda", None)),
    }


def stage_torch_npu(patient: Patient) -> dict[str, str]:
    """Import torch_npu, as a program does that does not rely on torch's own loading."""
    if not is_installed("torch_npu") and patient.type != "npu":
        raise Skip("torch_npu is not installed")
    importlib.import_module("torch")
    module = importlib.import_module("torch_npu")
    return {"version": str(getattr(module, "__version__", "?")), "file": str(getattr(module, "__file__", None))}


def stage_autoload(_patient: Patient) -> dict[str, str]:
    """Import torch and let it load torch_npu by itself."""
    if not is_installed("torch_npu"):
        raise Skip("torch_npu is not installed")
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        raise Skip("TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set")
    importlib.import_module("torch")
    return {"torch_npu loaded by torch": "yes" if "torch_npu" in sys.modules else "no"}


def stage_devices(patient: Patient) -> dict[str, str]:
    """Count the devices, read the properties of the first, and put a tensor on it."""
    torch = patient.torch
    patient.load_npu()
    if patient.type == "cpu":
        return {"device": "cpu", "name": platform.machine(), "count": "1", "threads": str(torch.get_num_threads())}
    module = getattr(torch, patient.type)
    count = module.device_count() if module.is_available() else 0
    if not count:
        raise RuntimeError(f"torch.{patient.type}.device_count() is 0")
    properties = module.get_device_properties(0)
    values = {"device": patient.device, "count": str(count), "name": str(properties.name)}
    for name in ("total_memory", "major", "minor", "warp_size"):
        values[name] = str(getattr(properties, name, "absent"))
    probe = torch.ones(8, device=patient.device)
    patient.wait()
    values["tensor"] = str(tuple(probe.shape))
    return values


def stage_properties(patient: Patient) -> dict[str, str]:
    """Ask what torch's compiler asks about the device, in each of its modules."""
    values = {}
    for name in HAS_TRITON:
        if not is_importable(name):
            continue
        function = getattr(importlib.import_module(name), "has_triton", None)
        if function is not None:
            values[f"has_triton in {name}"] = str(function())
    if patient.type == "npu" and patient.torch.cuda.is_available():
        # transfer_to_npu is on: torch's compiler asks for the capability of what it takes for a CUDA device.
        compile_fx = importlib.import_module("torch._inductor.compile_fx")
        ask = getattr(compile_fx, "_warn_tf32_disabled", None)
        if ask is not None:
            ask()
        values["torch.cuda is"] = "transfer_to_npu"
    return values


def is_importable(name: str) -> bool:
    """Whether this torch has such a module; versions differ."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def stage_triton(patient: Patient) -> dict[str, str]:
    """Import triton and have it find its driver."""
    if patient.type == "cpu":
        raise Skip("inductor compiles for the CPU in C++, without triton")
    patient.load_npu()
    triton = importlib.import_module("triton")
    values = {"version": str(triton.__version__), "file": str(triton.__file__)}
    values["backends"] = ", ".join(sorted(importlib.import_module("triton.backends").backends))
    driver = importlib.import_module("triton.runtime.driver").driver
    values["target"] = str(driver.active.get_current_target())
    return values


def stage_gate(patient: Patient) -> dict[str, str]:
    """Call flex_attention's device check with a tensor on the device."""
    check = getattr(patient.flex, "_validate_device", None)
    if check is None:
        return {"check": "absent"}
    query, key, value = patient.inputs()
    check(query, key, value)
    patched = [name for name in vars(patient.flex) if name.startswith("_npu") and name.endswith("device_patched")]
    return {"check": f"{check.__module__}.{check.__qualname__}", "marks": ", ".join(patched) or "none"}


def arguments_of(patient: Patient, case: Case, length: int) -> dict[str, Any]:
    """Return the keyword arguments that make flex_attention do `case`."""
    arguments: dict[str, Any] = {}
    if case.score_mod:
        arguments["score_mod"] = case.score_mod
    if case.mask_mod:
        arguments["block_mask"] = patient.flex.create_block_mask(
            case.mask_mod, None, None, length, length, device=patient.device
        )
    if case.key_heads != HEADS:
        arguments["enable_gqa"] = True
    return arguments


def compare(patient: Patient, name: str, result: Any, inputs: tuple[Any, ...]) -> Difference:
    """Hold a result against scaled_dot_product_attention."""
    torch = patient.torch
    exact = [item.detach().to("cpu").float() for item in inputs]
    expected = reference(torch, make_case(name, torch, "cpu"), *exact)
    return difference("from scaled_dot_product_attention", result, expected, tolerance(patient))


def tolerance(patient: Patient) -> float:
    """How far apart results in this number format may be."""
    return TOLERANCE[str(patient.dtype).rpartition(".")[2]]


def stage_eager(patient: Patient) -> dict[str, str]:
    """Run flex_attention without compiling it."""
    inputs = patient.inputs()
    result = patient.flex.flex_attention(*inputs)
    patient.wait()
    return settle([compare(patient, "eager", result, inputs)])


def compiled(patient: Patient, name: str, lengths: tuple[int, ...] = (LENGTH,)) -> dict[str, str]:
    """Compile a case, run it, and hold it against the reference and against an eager run of the same."""
    torch, flex = patient.torch, patient.flex
    fresh_compiler(torch)
    case = make_case(name, torch, patient.device)
    function = torch.compile(flex.flex_attention)
    differences = []
    for length in lengths:
        inputs = patient.inputs(length, case.key_heads)
        arguments = arguments_of(patient, case, length)
        result = function(*inputs, **arguments)
        patient.wait()
        differences.append(compare(patient, name, result, inputs))
        try:
            eager = flex.flex_attention(*inputs, **arguments)
        except Exception:  # noqa: BLE001, S112 - the stage `eager` speaks of that
            continue
        differences.append(difference("from eager", result, eager, 2 * tolerance(patient)))
    values = settle(worst_of(differences))
    values.update(graphs(torch))
    return values


def worst_of(differences: list[Difference]) -> list[Difference]:
    """Keep the largest difference of each kind."""
    worst: dict[str, Difference] = {}
    for item in differences:
        if item.name not in worst or not item.value <= worst[item.name].value:
            worst[item.name] = item
    return list(worst.values())


def fresh_compiler(torch: Any) -> None:
    """Forget what was compiled before, so that no stage runs into the limit of recompilations of another."""
    dynamo = importlib.import_module("torch._dynamo")
    dynamo.reset()
    importlib.import_module("torch._dynamo.utils").counters.clear()


def graphs(torch: Any) -> dict[str, str]:
    """Say how often torch compiled, and that it did.

    Raises:
        WrongResultError: the call ran, but nothing was compiled.
    """
    counters = importlib.import_module("torch._dynamo.utils").counters
    count = counters["stats"]["unique_graphs"]
    if not count:
        raise WrongResultError("torch.compile ran the call without compiling it")
    return {"graphs": str(count), "graph breaks": str(sum(counters["graph_break"].values()))}


def stage_compiled_forward(patient: Patient) -> dict[str, str]:
    """Compile flex_attention without any function of the user's."""
    return compiled(patient, "plain")


def stage_compiled_backward(patient: Patient) -> dict[str, str]:
    """Compile forward and backward, and hold the gradients against the reference."""
    if patient.type == "cpu":
        raise Skip("flex_attention has no backward on the CPU")
    torch = patient.torch
    fresh_compiler(torch)
    inputs = tuple(item.requires_grad_() for item in patient.inputs())
    result = torch.compile(patient.flex.flex_attention)(*inputs)
    weights = patient.tensor(HEADS, LENGTH, 4)
    result.backward(weights)
    patient.wait()
    exact = [item.detach().to("cpu").float().requires_grad_() for item in inputs]
    reference(torch, Case(), *exact).backward(weights.to("cpu").float())
    differences = []
    for name, ours, theirs in zip(("query", "key", "value"), inputs, exact, strict=False):
        allowed = tolerance(patient) * max(1.0, theirs.grad.abs().max().item())
        differences.append(difference(f"of the gradient of {name}", ours.grad, theirs.grad, allowed))
    return settle(differences)


def stage_of_case(name: str) -> Callable[[Patient], dict[str, str]]:
    """Return the stage that runs one case."""
    lengths = (LENGTH, LENGTH + 128, 2 * LENGTH) if name == "dynamic_length" else (LENGTH,)
    return lambda patient: compiled(patient, name, lengths)


# --- two ranks -------------------------------------------------------------------------------------------------------


def make_model(patient: Patient, compile_inside: bool) -> Any:
    """Return a small attention block. Where flex_attention has no backward, only its last layer is trained."""
    torch, flex = patient.torch, patient.flex
    attend = torch.compile(flex.flex_attention) if compile_inside else flex.flex_attention
    has_backward = patient.type != "cpu"

    class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.project = torch.nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)
            self.out = torch.nn.Linear(HEADS * WIDTH, HEADS * WIDTH)
            self.project.requires_grad_(has_backward)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.project(x).reshape(batch, length, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
            result = attend(parts[0].contiguous(), parts[1].contiguous(), parts[2].contiguous())
            return self.out(result.transpose(1, 2).reshape(batch, length, HEADS * WIDTH))

    torch.manual_seed(0)
    return Block().to(patient.device).to(patient.dtype)


@contextlib.contextmanager
def process_group(patient: Patient) -> Iterator[Any]:
    """Join the other ranks, with the library that goes with the device."""
    patient.load_npu()
    distributed = importlib.import_module("torch.distributed")
    backend = {"cpu": "gloo", "cuda": "nccl", "npu": "hccl"}[patient.type]
    if patient.type != "cpu":
        getattr(patient.torch, patient.type).set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if not distributed.is_initialized():
        distributed.init_process_group(backend)
    yield distributed


def ranks_possible(patient: Patient) -> int:
    """How many ranks can have a device of their own."""
    return sys.maxsize if patient.type == "cpu" else int(getattr(patient.torch, patient.type).device_count())


def run_ranks(patient: Patient, compile_inside: bool) -> dict[str, str]:
    """Train one step on each rank and see that the gradients are the mean over the ranks."""
    torch = patient.torch
    patient.load_npu()
    ranks, count = int(os.environ.get("WORLD_SIZE", "1")), ranks_possible(patient)
    if count < ranks:
        raise Skip(f"only {count} devices for {ranks} ranks")
    with process_group(patient) as distributed:
        fresh_compiler(torch)
        parallel = importlib.import_module("torch.nn.parallel").DistributedDataParallel
        model = parallel(make_model(patient, compile_inside))
        step = model if compile_inside else torch.compile(model)
        generator = torch.Generator(device="cpu").manual_seed(10 + distributed.get_rank())
        x = torch.randn(1, LENGTH, HEADS * WIDTH, generator=generator).to(patient.dtype).to(patient.device)
        result = step(x)
        result.float().square().sum().backward()
        patient.wait()
        alone = make_model(patient, compile_inside=False)
        alone(x).float().square().sum().backward()
        expected = alone.out.weight.grad.detach().float()
        distributed.all_reduce(expected)
        expected /= distributed.get_world_size()
        allowed = tolerance(patient) * max(1.0, expected.abs().max().item())
        values = settle([difference("of the shared gradient", model.module.out.weight.grad, expected, allowed)])
        values.update(graphs(torch))
        values["ranks"] = str(distributed.get_world_size())
        distributed.barrier()
        return values


RUN: dict[str, Callable[[Patient], dict[str, str]]] = {
    "python": stage_python,
    "torch": stage_torch,
    "torch_npu": stage_torch_npu,
    "autoload": stage_autoload,
    "devices": stage_devices,
    "properties": stage_properties,
    "triton": stage_triton,
    "gate": stage_gate,
    "eager": stage_eager,
    "compiled_forward": stage_compiled_forward,
    "compiled_backward": stage_compiled_backward,
    "ranks_inside": lambda patient: run_ranks(patient, compile_inside=True),
    "ranks_around": lambda patient: run_ranks(patient, compile_inside=False),
}


# --- the run ---------------------------------------------------------------------------------------------------------


def clip(text: str) -> str:
    """Keep the head and the tail of a long text."""
    if len(text) <= MAX_TEXT:
        return text
    return text[: MAX_TEXT * 3 // 4] + "\n[...]\n" + text[-MAX_TEXT // 4 :]


def describe(error: BaseException) -> list[dict[str, Any]]:
    """Return an exception and what caused it, the first cause first."""
    found: list[dict[str, Any]] = []
    seen = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(found) < MAX_ERRORS:
        seen.add(id(current))
        try:
            message = str(current)
        except Exception as unprintable:  # noqa: BLE001 - anything may be raised in there
            message = f"<no text: {type(unprintable).__name__}>"
        frames = traceback.extract_tb(current.__traceback__)[-MAX_FRAMES:]
        found.append(
            {
                "type": type(current).__name__,
                "message": clip(message),
                "frames": [
                    {"path": frame.filename, "line": frame.lineno, "function": frame.name, "text": frame.line or ""}
                    for frame in frames
                    if frame.filename != __file__ and "importlib" not in frame.filename
                ],
            }
        )
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return found[::-1]


def run_stage(name: str, patient: Patient, reporter: Reporter) -> bool:
    """Run one stage and report it. Returns whether those that need it may run."""
    reporter.say(event="start", stage=name)
    begin = time.monotonic()
    line: dict[str, Any] = {"event": "end", "stage": name}
    try:
        run = RUN.get(name) or stage_of_case(name)
        line.update(status="passed", values={key: clip(value) for key, value in run(patient).items()})
    except Skip as skip:
        line.update(status="skipped", reason=str(skip))
    except BaseException as error:  # noqa: BLE001 - SystemExit and MemoryError tell something too
        line.update(status="failed", errors=describe(error))
    line["seconds"] = round(time.monotonic() - begin, 3)
    if name in ("devices", "compiled_forward") and line["status"] == "passed":
        line["device"] = patient.device
    reporter.say(**line)
    return bool(line["status"] != "failed")


def guard(parent: int) -> None:
    """Die with the runner, leave no core file, and be the first to go when memory runs out. Where that is possible."""
    with contextlib.suppress(Exception):
        import ctypes  # noqa: PLC0415

        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
        if parent and os.getppid() != parent:
            os._exit(1)
    with contextlib.suppress(Exception):
        import resource  # noqa: PLC0415

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("500")


def under_torchrun(options: argparse.Namespace) -> int:
    """Become torchrun, which starts this file once for each rank."""
    run = importlib.import_module("torch.distributed.run")
    head = ["--standalone", f"--nproc-per-node={options.ranks}", os.path.abspath(__file__)]  # noqa: PTH100
    names = ("report", "stages", "device", "stack", "folder")
    run.main(head + [f"--{name}={getattr(options, name)}" for name in names])
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--report", required=True, help="append one JSON object a line to this file")
    parser.add_argument("--stages", default=",".join(name for name in STAGES if name not in RANK_STAGES))
    parser.add_argument("--device", default="auto", choices=["npu", "cpu", "cuda", "auto"])
    parser.add_argument(
        "--stack", default="", help="write the Python stacks there when the process is killed by a fault"
    )
    parser.add_argument("--parent", type=int, default=0, help="end when this process is gone")
    parser.add_argument("--folder", default="", help="where a script would lie that imports torch; default: here")
    parser.add_argument("--ranks", type=int, default=1, help="run the stages in so many processes, under torchrun")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the stages that were asked for, one after the other."""
    options = parse(arguments)
    guard(options.parent)
    # As in a script that lies in the user's folder; what lies beside this file is no part of the patient.
    with contextlib.suppress(OSError):
        sys.path[0] = options.folder or os.getcwd()  # noqa: PTH109
    if options.ranks > 1:
        return under_torchrun(options)
    if options.stack:
        faulthandler.enable(file=open(options.stack, "ab"), all_threads=True)  # noqa: PTH123, SIM115
    rank = os.environ.get("RANK")
    reporter = Reporter(options.report, int(rank) if rank else None)
    patient = Patient(options.device)
    failed = set()
    for name in options.stages.split(","):
        cause = next((needed for needed in STAGES[name] if needed in failed), None)
        if cause:
            failed.add(name)
            reporter.say(event="end", stage=name, status="blocked", reason=cause, seconds=0.0)
        elif not run_stage(name, patient, reporter):
            failed.add(name)
    reporter.say(event="done")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
