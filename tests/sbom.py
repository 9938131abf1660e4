"""Delta's jars added to the CycloneDX list of packages: `python -m tests.sbom PACKAGES.json SBOM.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipelines.setup import JARS
from pipelines.streaming.hadoop import LOCAL
from pipelines.streaming.jars import ARTIFACT, MARK, find, local_files, sha256

Document = dict[str, Any]


def with_jars(packages: Document, jars: Iterable[Path]) -> Document:
    """The document with `jars` (`group_artifact-version.jar`) as components on which the main component depends."""
    components = [component(jar) for jar in jars]
    refs = [found["bom-ref"] for found in components]
    main = packages["metadata"]["component"]["bom-ref"]
    dependencies = [
        {**entry, "dependsOn": [*entry.get("dependsOn", ()), *refs]} if entry["ref"] == main else entry
        for entry in packages["dependencies"]
    ]
    return {
        **packages,
        "components": [*packages["components"], *components],
        "dependencies": [*dependencies, *({"ref": ref} for ref in refs)],
    }


def component(jar: Path) -> Document:
    """One jar as CycloneDX has it. Raises ValueError where its name is not that of a Maven artifact."""
    found = ARTIFACT.fullmatch(jar.name)
    if found is None:
        raise ValueError(f"{jar} is not named group_artifact-version.jar")
    url = f"pkg:maven/{found['group']}/{found['name']}@{found['version']}?type=jar"
    return {
        "type": "library",
        "bom-ref": url,
        **found.groupdict(),
        "hashes": [{"alg": "SHA-256", "content": sha256(jar)}],
        "purl": url,
    }


def main(packages: str, out: str) -> None:
    local = find(JARS / LOCAL, local_files()) if (JARS / LOCAL / MARK).is_file() else []
    document = with_jars(json.loads(Path(packages).read_text()), map(Path, [*find(JARS), *local]))
    Path(out).write_text(json.dumps(document, indent=2) + "\n")
    print(f"sbom: {len(document['components'])} components in {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
