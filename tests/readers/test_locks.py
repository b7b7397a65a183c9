"""Lists of packages in every form in which they come, and in some in which they should not."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexdoctor.readers.locks import LockError, Plan, Platform, read_plan

AARCH64 = Platform()
X86_64 = Platform(architecture="x86_64")


def plan(text: str | bytes, platform: Platform = AARCH64) -> Plan:
    return read_plan(None, text.encode() if isinstance(text, str) else text, platform)


def pins(text: str | bytes, platform: Platform = AARCH64) -> dict[str, str | None]:
    return {item.name: item.version for item in plan(text, platform).packages}


REQUIREMENTS = """\
# a comment
--index-url https://user:secret@host/simple
torch==2.13.0            # trailing
Torch_NPU == 2.13.0
triton-ascend==3.2.0 \\
    --hash=sha256:aaaa \\
    --hash=sha256:bbbb
numpy>=1.24
only-x86==1 ; platform_machine == "x86_64"
only-old==1 ; python_version < "3.9"
extra-one==1 ; extra == "dev"
wheel @ https://host/dist/wheel-0.45.1-py3-none-any.whl#sha256=cc
https://user:secret@host/dist/pybind11-3.0.1-py3-none-any.whl
-e git+https://token@host/x.git#egg=my-package
not a requirement at all !
"""


def test_requirements() -> None:
    assert pins(REQUIREMENTS) == {
        "torch": "2.13.0",
        "torch-npu": "2.13.0",
        "triton-ascend": "3.2.0",
        "numpy": None,
        "wheel": "0.45.1",
        "pybind11": "3.0.1",
        "my-package": None,
    }


def test_markers_follow_the_stated_platform() -> None:
    assert pins(REQUIREMENTS, X86_64)["only-x86"] == "1"


def test_what_cannot_be_used_is_noted_without_credentials() -> None:
    notes = plan(REQUIREMENTS).notes
    assert any("editable install" in note for note in notes)
    assert any("not a requirement at all" in note for note in notes)
    assert "secret" not in str(plan(REQUIREMENTS))
    assert "token" not in str(plan(REQUIREMENTS))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_encodings_and_line_ends(encoding: str, newline: str) -> None:
    text = newline.join(["torch==2.7.1", "torch-npu==2.7.1", ""])
    data = ("\ufeff" + text if encoding == "utf-16-le" else text).encode(encoding)
    assert pins(data) == {"torch": "2.7.1", "torch-npu": "2.7.1"}


def test_pip_freeze_and_pip_list() -> None:
    freeze = "attrs==24.2.0\ntorch @ file:///build/torch-2.7.1%2Bcpu-cp311-cp311-linux_x86_64.whl\ntorch-npu==2.7.1\n"
    assert pins(freeze) == {"attrs": "24.2.0", "torch": "2.7.1+cpu", "torch-npu": "2.7.1"}
    url = "https://host/torch-2.7.1%2Bcpu-cp311-cp311-linux_x86_64.whl?x=1#sha256=a"
    assert pins(f"{url}\n") == {"torch": "2.7.1+cpu"}
    assert pins(f"torch @ {url}\n") == {"torch": "2.7.1+cpu"}
    listing = (
        "Package         Version\n--------------- -----------\ntorch           2.7.1+cpu\ntorch_npu 2.7.1 /editable\n"
    )
    assert pins(listing) == {"torch": "2.7.1+cpu", "torch-npu": "2.7.1"}


def test_an_editable_install_is_called_what_the_comment_of_pip_calls_it() -> None:
    comment = "# Editable install with no version control (torch-npu==2.7.1)"
    assert pins(f"torch==2.7.1\n{comment}\n-e /src/pytorch\n") == {"torch": "2.7.1", "torch-npu": None}
    assert pins(f"torch==2.7.1\n{comment}\n\n-e /src/pytorch\n") == {"torch": "2.7.1"}


def test_pylock() -> None:
    text = """
lock-version = "1.0"
created-by = "test"
[[packages]]
name = "torch"
version = "2.13.0"
[[packages.wheels]]
name = "torch-2.13.0-cp311-cp311-manylinux_2_28_aarch64.whl"
url = "https://host/torch-2.13.0-cp311-cp311-manylinux_2_28_aarch64.whl"
hashes = { sha256 = "00" }
[[packages]]
name = "only-x86"
version = "1"
marker = "platform_machine == 'x86_64'"
[[packages.wheels]]
name = "only_x86-1-py3-none-any.whl"
url = "https://host/only_x86-1-py3-none-any.whl"
hashes = { sha256 = "00" }
"""
    assert pins(text) == {"torch": "2.13.0"}
    assert pins(text, X86_64) == {"torch": "2.13.0", "only-x86": "1"}


def test_uv_lock_leaves_the_project_itself_out() -> None:
    text = """
version = 1
[[package]]
name = "my-project"
version = "0.1.0"
source = { editable = "." }
[[package]]
name = "Torch_NPU"
version = "2.13.0"
source = { registry = "https://host/simple" }
"""
    assert pins(text) == {"torch-npu": "2.13.0"}


def test_includes_are_followed_and_loops_end(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "requirements.txt").write_text("torch==2.7.1\n-r sub/more.txt\n-r https://host/x.txt\n-r absent.txt\n")
    (tmp_path / "sub/more.txt").write_text("torch-npu==2.7.1\n--requirement ../requirements.txt\n-r more.txt\n")
    found = read_plan(tmp_path / "requirements.txt", None, AARCH64)
    assert {item.name for item in found.packages} == {"torch", "torch-npu"}
    assert any("a URL" in note for note in found.notes)
    assert any("cannot be read" in note for note in found.notes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "names no package"),
        (b"# nothing\n\n", "names no package"),
        (b"\x00\x01\x02torch", "is not text"),
        (b"\xff\xfe\x00", "is not text in utf-16"),
        (b"torch==2.7.1\n\xff\xff", "is not text in utf-8"),
        (b"lock-version = ", "is not TOML"),
        (b'lock-version = "9.0"\npackages = []\n', "is not a valid pylock.toml"),
        (b"version = 1\n", "neither a pylock.toml nor a uv.lock"),
    ],
)
def test_what_is_no_list_of_packages_is_one_clear_line(data: bytes, message: str) -> None:
    with pytest.raises(LockError, match=message) as caught:
        plan(data)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_bytes_make_the_reader_fail_in_another_way(data: bytes) -> None:
    with contextlib.suppress(LockError):
        assert plan(data).packages
