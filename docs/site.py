"""Pages that mkdocs adds to those of this folder: the README first, the changelog last, a list for each folder.

A link to a file of the repository that is no page is its text alone; with SITE_SOURCE, such as
https://git.example/hwmark/blob/main, it leads there.
"""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^()\s#]+)(#[^()\s]*)?\)")
PAGES = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md"}
FOLDERS = {"decisions": "Decisions", "runbooks": "Runbooks"}
SOURCE = os.environ.get("SITE_SOURCE", "").rstrip("/")


def on_files(files, config):
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for folder, title in FOLDERS.items():
        pages = sorted((ROOT / "docs" / folder).glob("*.md"))
        lines = [f"- [{page.read_text().splitlines()[0].lstrip('# ')}]({page.name})" for page in pages]
        files.append(File.generated(config, f"{folder}/index.md", content="\n".join([f"# {title}", "", *lines])))
    return files


def on_page_markdown(markdown, page, config, files):
    place = page.file.src_uri
    folder = "" if place in PAGES.values() else posixpath.dirname(f"docs/{place}")
    fences = [*FENCED.finditer(markdown), None]
    done, at = "", 0
    for fence in fences:
        prose = markdown[at : fence.start() if fence else None]
        done += LINK.sub(lambda found: link_of_page(found, folder, place), prose) + (fence[0] if fence else "")
        at = fence.end() if fence else at
    return done


def link_of_page(found, folder, place):
    """The link of a page in a folder of the repository as one between pages."""
    text, target, anchor = found[1], posixpath.normpath(posixpath.join(folder, found[2])), found[3] or ""
    page = PAGES.get(target, target.removeprefix("docs/"))
    if page in FOLDERS:
        page += "/index.md"
    if target in PAGES or (target.startswith("docs/") and not target.endswith(".py")):
        return f"[{text}]({posixpath.relpath(page, posixpath.dirname(place) or '.')}{anchor})"
    return f"[{text}]({SOURCE}/{target}{anchor})" if SOURCE else text
