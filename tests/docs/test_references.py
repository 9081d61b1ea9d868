"""What the documents point at is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCES = ROOT / "src" / "penstock"
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_links(document):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_files_named_in_the_text(document):
    """A path such as ``plan/build.py`` is one below ``src/penstock``, ``tests/...`` one from the root."""
    for name in re.findall(r"`([a-z_]+/[a-z_/]+(?:\.(?:py|txt|md))?/?)`", document.read_text()):
        assert (SOURCES / name).exists() or (ROOT / name).exists(), f"{document.name} names {name}"


def test_make_targets():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for document in DOCUMENTS:
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text(), re.MULTILINE):
            assert target in targets, f"{document.name} says make {target}"
