"""What the platform team of a company asks of an environment, beyond what makes flex_attention run."""

from collections.abc import Iterator
from importlib.resources import files

from flexdoctor.chain import Check
from flexdoctor.facts import Facts
from flexdoctor.findings import Evidence, Fault, Finding, found, passed, skipped
from flexdoctor.text import Text

LINK = "corp_policy"
APPROVED = ("2.13.0", "2.14.0")
NOT_APPROVED = Fault(
    "CORP101",
    Text("torch-npu {version} is not approved for our clusters", "torch-npu {version} 未获准用于我们的集群"),
    severity="warning",
)


def examine(facts: Facts) -> Iterator[Finding]:
    """Hold the installed torch-npu against the list."""
    npu = facts.packages.find("torch-npu")
    if npu is None:
        yield skipped(LINK, Text("no torch-npu here", "此环境没有 torch-npu"))
    elif npu.version in APPROVED:
        yield passed(
            LINK, Text("torch-npu {version} is approved", "torch-npu {version} 已获准").format(version=npu.version)
        )
    else:
        yield found(
            LINK,
            NOT_APPROVED,
            version=npu.version,
            evidence=[Evidence("metadata", f"Version: {npu.version}", path=npu.metadata_path)],
            remedy=Text("ask the platform team, or take {version}", "请联系平台团队，或改用 {version}").format(
                version=APPROVED[-1]
            ),
        )


CHECK = Check(
    link=LINK,
    title=Text("corp policy", "公司规范"),
    question=Text("is this torch-npu approved for our clusters?", "该 torch-npu 是否获准用于我们的集群？"),
    faults=(NOT_APPROVED,),
    examine=examine,
    requires=("packages",),
    after="packages",
    pages=files("corp_checks").joinpath("pages.toml"),
)
