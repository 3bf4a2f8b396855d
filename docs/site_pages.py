"""What ``make site`` adds to docs/: pages of the root, and the decisions in the order of their numbers.

A link that leaves docs/ for one of the pages of the root leads to its copy in the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the decisions below their index."""
    pages = sorted(page.name for page in (ROOT / "docs/decisions").glob("0*.md"))
    _decisions(config.nav).extend(f"decisions/{name}" for name in pages)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, whose links begin at docs/ then."""
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to pages of the root to their copies."""
    up = "../" * page.file.src_uri.count("/")
    return re.sub(rf"\]\((?:\.\./)+({'|'.join(ROOT_PAGES)})", rf"]({up}\1", markdown)


def _decisions(nav: Any) -> list[str]:
    """Return the list of the navigation that begins with the index of decisions. Raises ``LookupError`` without one."""
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else ():
            if isinstance(value, list):
                if value[0] == "decisions/index.md":
                    return value
                try:
                    return _decisions(value)
                except LookupError:
                    continue
    raise LookupError("mkdocs.yml has no list of decisions")
