"""The registry patch on real files of diffusers, and the shipped example against the wheels it was recorded from."""

from __future__ import annotations

import shutil
from pathlib import Path

import kernel_trees as trees
import pytest
import real_wheels
from real import wheelhouse

from flexdoctor import snapshots
from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.knowledge.record_examples import recipes, record
from flexdoctor.readers.environment import HubOptions, ReadOptions, read_site_packages
from flexdoctor.readers.hub import parse_kernel
from flexdoctor.treatment import patches

pytestmark = pytest.mark.real
FA2 = "kernels-community/flash-attn2"


@pytest.mark.parametrize("version", ["0.38.0", "0.39.0", "0.41.0"])
def test_a_patched_registry_fits_the_kernel(version: str, tmp_path: Path) -> None:
    site, real = tmp_path / "site", real_wheels.unpacked("diffusers", version)
    shutil.copytree(real / f"diffusers-{version}.dist-info", site / f"diffusers-{version}.dist-info")
    for name in ("diffusers/__init__.py", "diffusers/models/attention_dispatch.py"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(real / name, site / name)
    kernel = trees.write_kernel(tmp_path / "kernel", trees.flash_attn2(wrapped=False))
    options = ReadOptions(hub=HubOptions((parse_kernel(f"{FA2}={kernel}"),)))

    def names_missed() -> int:
        found = diagnose(read_site_packages(site, options=options), CHAIN, select=["hub_kernels"]).findings
        return sum(item.code == "FD301" for item in found)

    assert names_missed() > 0
    patch = patches.patch_for("hub_registry", site, version)
    assert patch is not None
    patches.apply_patch(site / patches.file_of("hub_registry"), patch)
    assert names_missed() == 0


def test_the_example_is_what_its_recipe_records() -> None:
    (recipe,) = recipes(["hub-kernel-mismatch"])
    folders = {wheelhouse.wheel(pin).parent for pin in recipe["consumers"]}
    assert record(recipe, folders.pop()) == snapshots.load_example("hub-kernel-mismatch")
